//go:build slow

package e2e

import (
	"fmt"
	"testing"
)

// A /16 is drawn on one canvas: an element for each of its 65,536 cells would take seconds. How long it takes is
// printed and not judged, since that is the machine's.
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
	took := evaluate[float64](b, `(async () => {
		const answer = await (await fetch("data/pool?subject=kube-system/10.0.0.0-16",
			{ headers: { Authorization: "Bearer " + sessionStorage.getItem("token") } })).text();
		const { pool } = await import("./map.js"), box = document.createElement("div"), begin = performance.now();
		box.append(...pool(JSON.parse(answer), "kube-system/10.0.0.0-16").flat().filter(Boolean));
		document.getElementById("main").replaceChildren(box);
		await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
		return performance.now() - begin;
	})()`)
	t.Logf("65,536 cells took %.0f ms by the clock", took)
	canvas := evaluate[[]float64](b, `(() => {
		const { width, height } = document.getElementById("map-all").getBoundingClientRect();
		return [width, height];
	})()`)
	const least = 3 * 3 // square pixels of a cell
	if canvas[0]*canvas[1] < 65_536*least {
		t.Errorf("65,536 cells are drawn on %v pixels", canvas)
	}
	if n := evaluate[int](b, `document.querySelectorAll("#main *").length`); n > 2_000 {
		t.Errorf("the page has %d elements", n)
	}
}
