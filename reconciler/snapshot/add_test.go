package snapshot_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

// add writes an entry back as a repair does.
func add(t *testing.T, f *snapshot.Folder, p *ippool.Pool, key string) error {
	t.Helper()
	patch, err := ippool.WritePatch(p, []ippool.NewEntry{{Key: key, ContainerID: "c" + key, PodRef: "default/back", IfName: "net1"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.PatchPool(t.Context(), p, patch)
	return err
}

func TestAnEntryIsWrittenBackIntoAFileOfEitherFormat(t *testing.T) {
	asJSON := `{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","kind":"IPPool","metadata":{"name":"p","namespace":"x"},"spec":{"allocations":{ENTRIES},"range":"10.0.0.0/24"}}`
	block := strings.Replace(onePool, "10.0.0.0-24", "p", 1)
	for title, file := range map[string][2]string{
		"YAML":              {"p.yaml", block},
		"YAML, empty":       {"p.yaml", block[:strings.Index(block, "    \"5\":")] + "    \"9\": {id: c9, podref: default/z}\n  range: 10.0.0.0/24\n"},
		"YAML, {}":          {"p.yaml", strings.Replace(block[:strings.Index(block, "    \"5\":")], "allocations:", "allocations: {}", 1) + "  range: 10.0.0.0/24\n"},
		"YAML, a flow map":  {"p.yaml", "apiVersion: whereabouts.cni.cncf.io/v1alpha1\nkind: IPPool\nmetadata: {name: p, namespace: x}\nspec: {range: 10.0.0.0/24, allocations: {\"9\": {id: c9, podref: default/z}}}\n"},
		"JSON":              {"p.json", strings.Replace(asJSON, "ENTRIES", `"9":{"id":"c9","podref":"default/z"}`, 1)},
		"JSON, {}":          {"p.json", strings.Replace(asJSON, "ENTRIES", "", 1)},
		"JSON, an odd key":  {"p.json", strings.Replace(asJSON, "ENTRIES", `"09":{"id":"c9","podref":"default/z"}`, 1)},
		"YAML, an odd key":  {"p.yaml", strings.Replace(block, `"5"`, `"05"`, 1)},
		"YAML, a later one": {"p.yaml", strings.Replace(block, "id: c5", "id: c5\n      later: {a: 1}", 1)},
	} {
		t.Run(title, func(t *testing.T) {
			dir := folder(t, map[string]string{file[0]: file[1]})
			f := open(t, dir)
			p := poolNamed(t, observe(t, f), "p")
			hold(t, f, func(context.Context, *reconciler.Hold) error { return add(t, f, p, "77") })
			after := poolNamed(t, observe(t, open(t, dir)), "p")
			a := after.Find("77")
			if a == nil || a.Problem != "" || a.ContainerID != "c77" || a.PodRef != "default/back" || a.IfName != "net1" {
				t.Errorf("entry %+v in\n%s", a, read(t, dir+"/"+file[0]))
			}
			equal(t, "entries", len(after.Allocations), len(p.Allocations)+1)
			for _, was := range p.Allocations {
				if after.Find(was.Key) == nil {
					t.Errorf("entry %q is gone", was.Key)
				}
			}
		})
	}
}

func TestAnEntryIsReplacedInItsPlace(t *testing.T) {
	for title, file := range map[string][2]string{
		"YAML":             {"p.yaml", strings.Replace(onePool, "10.0.0.0-24", "p", 1)},
		"YAML, a flow map": {"p.yaml", "apiVersion: whereabouts.cni.cncf.io/v1alpha1\nkind: IPPool\nmetadata: {name: p, namespace: x}\nspec: {range: 10.0.0.0/24, allocations: {\"5\": {id: c5, podref: default/a}}}\n"},
		"JSON":             {"p.json", `{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","kind":"IPPool","metadata":{"name":"p","namespace":"x"},"spec":{"allocations":{"5":{"id":"c5","podref":"default/a"}},"range":"10.0.0.0/24"}}`},
	} {
		t.Run(title, func(t *testing.T) {
			dir := folder(t, map[string]string{file[0]: file[1]})
			f := open(t, dir)
			p := poolNamed(t, observe(t, f), "p")
			hold(t, f, func(context.Context, *reconciler.Hold) error {
				patch, err := ippool.WritePatch(p, []ippool.NewEntry{{Key: "5", ContainerID: "new", PodRef: "default/new", IfName: "net1", Replaces: p.Find("5")}})
				if err != nil {
					return err
				}
				_, err = f.PatchPool(t.Context(), p, patch)
				return err
			})
			after := poolNamed(t, observe(t, open(t, dir)), "p")
			if a := after.Find("5"); a == nil || a.Problem != "" || a.ContainerID != "new" || a.PodRef != "default/new" || a.IfName != "net1" {
				t.Errorf("entry %+v in\n%s", a, read(t, dir+"/"+file[0]))
			}
			equal(t, "entries", len(after.Allocations), len(p.Allocations))
		})
	}
}

func TestAnEntryThatIsWrittenBackAndReleasedLeavesTheFileAsItWas(t *testing.T) {
	dir := folder(t, map[string]string{"pool.yaml": onePool})
	f := open(t, dir)
	p := poolNamed(t, observe(t, f), "10.0.0.0-24")
	hold(t, f, func(context.Context, *reconciler.Hold) error { return add(t, f, p, "77") })
	release(t, f, "10.0.0.0-24", "77")
	same(t, "the file", read(t, dir+"/pool.yaml"), onePool)
}

// What work did before it failed is in memory and was proven by its tests: it
// is written, and the failure is reported.
func TestWhatWasDoneBeforeAFailureIsWrittenAndTheFailureIsReported(t *testing.T) {
	dir := folder(t, map[string]string{"pool.yaml": onePool})
	f := open(t, dir)
	p := poolNamed(t, observe(t, f), "10.0.0.0-24")
	failure := errors.New("the second check failed")
	err := f.Hold(t.Context(), "kube-system", nil, func(context.Context, *reconciler.Hold) error {
		return errors.Join(add(t, f, p, "77"), failure)
	})
	if !errors.Is(err, failure) {
		t.Errorf("%v", err)
	}
	if poolNamed(t, observe(t, open(t, dir)), "10.0.0.0-24").Find("77") == nil {
		t.Error("the file lacks what the folder in memory has")
	}
}
