//go:build slow

package e2e

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// The form of a pool asks what another range would mean, and shows the answer of pools check with its command. What is
// typed and wrong is said. The page is accessible with the answer, too.
func TestUI_AsksWhatAnotherRangeWouldMean(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	_, url := ui(t, "--snapshot", sampleCluster)
	axe := axeCore(t)
	b.do(chromedp.EmulateViewport(400, 900))
	b.open(url + "#/pool/kube-system%2F10.0.0.0-24")
	b.shows("main", "Another range", "network_name")
	ask := func(value string) {
		t.Helper()
		evaluate[int](b, `(document.getElementById("change-range").value = "").length`)
		b.do(chromedp.SendKeys("#change-range", value+"\r"))
	}
	ask("10.0.0.0/25")
	b.shows("#change-answer", "DOES IT FIT", "pools check kube-system/10.0.0.0-24 --new-range=10.0.0.0/25")
	evaluate[chromedp.Void](b, axe)
	equal(t, "violations with an answer", evaluate[string](b,
		`axe.run().then((r) => JSON.stringify(r.violations.map((v) => [v.id, v.nodes[0].html])))`), "[]")
	equal(t, "what is cut", evaluate[string](b, cutText), "")
	ask("no range")
	b.shows("#change-answer", "no range")
	equal(t, "the view", b.text("h1"), "Pool kube-system/10.0.0.0-24")
}
