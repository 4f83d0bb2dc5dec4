package snapshot

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// A kind of which nothing was exported is unknown. An empty list of it says that there is none.
func TestSnapshot_Has(t *testing.T) {
	const pool = `{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","kind":"IPPool","metadata":{"name":"p"},"spec":{}}`
	for text, want := range map[string]string{
		"": "", `{"apiVersion":"v1","kind":"NodeList","items":[]}`: "Node", `{"kind":"List","items":[]}`: "",
		`{"kind":"LeaseList","apiVersion":"coordination.k8s.io/v1","items":null}`:         "Lease",
		`{"kind":"List","items":[{"kind":"PodList","items":[]}]}`:                         "Pod",
		`{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"w1"}}]}`:      "Node",
		`{"kind":"Lease","apiVersion":"example.com/v1","metadata":{"name":"of another"}}`: "",
	} {
		text, want = pool+text, strings.TrimSpace("IPPool "+want)
		s, err := OpenStream("x", strings.NewReader(text), time.Unix(1e9, 0), "kube-system")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for kind := range kinds {
			if s.has(kind) {
				got = append(got, kind)
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s has %q; want %q", text, got, want)
		}
	}
	if kindByLayout("a/namespaces/x/core/pods.yaml") != "Pod" || kindByLayout("nodes/w1.json.gz") != "Node" ||
		kindByLayout("all.yaml") != "" {
		t.Error("the name of a file or folder says another kind")
	}
}
