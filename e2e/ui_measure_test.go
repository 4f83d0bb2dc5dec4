//go:build slow

package e2e

import (
	"fmt"
	"math"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
)

// A /16 is drawn within 200 ms: the processor time of all tasks of the page's thread, from the answer's text to the
// frame with the map. Time that other processes take does not count. The best of ten counts.
func TestUI_DrawsSixtyFiveThousandCells(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	pods := make([]string, 20_000)
	for i := range pods {
		pods[i] = fmt.Sprint("web-", i)
	}
	dir := snapshotOf(t, poolYAML("10.0.0.0-16", "10.0.0.0/16", "", pods...), networkYAML("wide", "10.0.0.0/16"))
	_, url := ui(t, "--snapshot", dir, "--now", "2026-11-20T10:00:00Z", "--pods-complete")
	b.open(url + "#/pool/kube-system%2F10.0.0.0-16")
	b.shows(".said")
	call(b, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})
	evaluate[chromedp.Void](b, `(async () => {
		window.answer = await (await fetch("data/pool?subject=kube-system/10.0.0.0-16",
			{ headers: { Authorization: "Bearer " + sessionStorage.getItem("token") } })).text();
		window.pool = (await import("./map.js")).pool;
	})()`)
	best, all := math.Inf(1), ""
	for n := 0; n < 10 && best > 200; n++ {
		before := b.taskTime()
		wall := evaluate[float64](b, `(async () => {
			const begin = performance.now(), box = document.createElement("div");
			box.append(...pool(JSON.parse(answer), "kube-system/10.0.0.0-16").flat().filter(Boolean));
			document.getElementById("main").replaceChildren(box);
			await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
			return performance.now() - begin;
		})()`)
		took := b.taskTime() - before
		best, all = min(best, took), all+fmt.Sprintf(" %.0f (%.0f)", took, wall)
	}
	equal(t, "all are drawn", evaluate[bool](b, `document.getElementById("map-all").height > 700`), true)
	t.Logf("65,536 cells, ms of the processor (by the clock):%s", all)
	if best > 200 {
		t.Errorf("65,536 cells took %.0f ms", best)
	}
}

func call[In, Out any](b *browser, c cdp.Command[In, Out], in In) Out {
	b.t.Helper()
	return try(chromedp.Call(b.ctx, c, in)).must(b.t)
}

// taskTime is the time of all tasks of the page's thread so far, in milliseconds.
func (b *browser) taskTime() float64 {
	b.t.Helper()
	for _, m := range call(b, performance.GetMetrics, cdp.Empty{}).Metrics {
		if m.Name == "TaskDuration" {
			return 1000 * m.Value
		}
	}
	b.t.Fatal("the browser has no TaskDuration")
	return 0
}
