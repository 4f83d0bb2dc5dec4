//go:build slow

package e2e

import (
	"strings"
	"testing"
)

// The host alone leads to the page, and the token of the fragment goes along.
func TestUI_TheHostAloneLeadsToThePage(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	_, url := ui(t, "--snapshot", sampleCluster)
	for _, path := range []string{"/#", "/ui#"} {
		b.open(strings.Replace(url, "/ui/#", path, 1) + "#/explain/10.0.0.22")
		b.shows("h1", "Address 10.0.0.22")
		equal(t, "the path after "+path, evaluate[string](b, "location.pathname"), "/ui/")
		equal(t, "the token in the address line", strings.Contains(evaluate[string](b, "location.href"), "token"), false)
	}
}
