package ippool_test

import (
	"strings"
	"testing"

	"github.com/k8snetworkplumbingwg/whereabouts/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

func TestAPodRefNamesAPod(t *testing.T) {
	for text, want := range map[string]ippool.PodRef{
		"default/web-0":            {Namespace: "default", Name: "web-0"},
		"a/b":                      {Namespace: "a", Name: "b"},
		"kube-system/web.example":  {Namespace: "kube-system", Name: "web.example"},
		"1/1":                      {Namespace: "1", Name: "1"},
		"default/web-0_0b9a6c1e-1": {Namespace: "default", Name: "web-0", UID: "0b9a6c1e-1"},
	} {
		got, err := ippool.ParsePodRef(text)
		if err != nil || got != want {
			t.Errorf("ParsePodRef(%q) = %+v, %v; want %+v", text, got, err, want)
		}
		equal(t, "written back", got.String(), text)
	}
}

// A12: whereabouts releases what it cannot read. Here nothing can be looked up by
// such a name, so it is an error.
func TestA12APodRefThatNoPodCanHaveIsAnError(t *testing.T) {
	for _, text := range []string{
		"", "weird", "/", "default/", "/web-0", "a/b/c", "default/Web-0", "default/web 0", " default/web-0", "default/web-0 ",
		"Default/web-0", "a.b/web-0", "default/-web", "default/web-0_", "default/_uid", "_/_",
		"default/" + strings.Repeat("a", 254), strings.Repeat("a", 64) + "/web-0", "default/web\n0",
	} {
		if got, err := ippool.ParsePodRef(text); err == nil {
			t.Errorf("ParsePodRef(%q) = %+v; want an error", text, got)
		}
	}
}

// The repaired form means a pod that is known to be none, and is released with its
// sandbox. What only resembles it means nothing.
func TestARepairedPodRefWhoseUIDIsNoUIDIsAnError(t *testing.T) {
	for _, text := range []string{"default/web_0/x", "default/web_a/b/c", "default/web_a b", "default/web_a_b",
		"default/web_\n"} {
		if got, err := ippool.ParsePodRef(text); err == nil {
			t.Errorf("ParsePodRef(%q) = %+v; want an error", text, got)
		}
	}
}

func TestThePodRefThatWhereaboutsWritesIsReadAndWrittenBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		namespace := rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?`).Draw(t, "namespace")
		name := rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,5}[a-z0-9])?){0,2}`).Draw(t,
			"name")
		written := (&types.IPAMConfig{PodNamespace: namespace, PodName: name}).GetPodRef()
		got, err := ippool.ParsePodRef(written)
		if err != nil || got != (ippool.PodRef{Namespace: namespace, Name: name}) || got.String() != written {
			t.Fatalf("%q: %+v, %v", written, got, err)
		}
		// What a repair writes for a phantom: no pod can have this name, so that no
		// successor takes the allocation over.
		repaired := ippool.PodRef{Namespace: namespace, Name: name, UID: "uid-1"}
		if back, err := ippool.ParsePodRef(repaired.String()); err != nil || back != repaired {
			t.Fatalf("%q: %+v, %v", repaired.String(), back, err)
		}
	})
}

// FuzzAPodRefIsReadAndWrittenBack: no two owners have one podref.
func FuzzAPodRefIsReadAndWrittenBack(f *testing.F) {
	for _, text := range []string{"default/web-0", "default/web-0_1b4e28ba-2fa1-11d2-883f-0016d3cca427", "a/b.c", "a/b/c",
		"/", "a/_", "A/b", "a/b_", ""} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ref, err := ippool.ParsePodRef(text)
		namespace, rest, ok := strings.Cut(text, "/")
		name, uid, repaired := strings.Cut(rest, "_")
		ok = ok && len(validation.IsDNS1123Label(namespace)) == 0 && len(validation.IsDNS1123Subdomain(name)) == 0 &&
			(!repaired || len(validation.IsDNS1123Label(uid)) == 0)
		if ok != (err == nil) {
			t.Fatalf("%q: %v; by apimachinery it names a pod: %v", text, err, ok)
		}
		if err == nil && ref.String() != text {
			t.Fatalf("%q is read as %+v", text, ref)
		}
		if err != nil && len(err.Error()) > 4*len(text)+200 {
			t.Fatalf("%d bytes of %d say what is wrong", len(err.Error()), len(text))
		}
	})
}
