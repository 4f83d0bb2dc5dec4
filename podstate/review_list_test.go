package podstate_test

import (
	"testing"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// The API server's lists always have items.
func TestAListWithoutItemsIsNoEmptyList(t *testing.T) {
	for _, text := range []string{`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"5"}}`, `{"kind":"PodList"}`, "k8s\x00\x0a\x0b\x0a\x00\x12\x07PodList\x12\x00"} {
		meta, err := podstate.DecodePods([]byte(text), func(*podstate.Pod) {})
		if err == nil {
			t.Errorf("%q was read as a list without pods, at revision %q", text, meta.ResourceVersion)
		}
	}
}
