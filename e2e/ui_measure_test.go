//go:build slow

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// A /16 is drawn within 200 ms on a machine that does nothing else; here only that it takes no seconds.
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
		const text = await (await fetch("data/pool?subject=kube-system/10.0.0.0-16")).text();
		const { pool } = await import("./map.js"), box = document.createElement("div");
		document.getElementById("main").append(box);
		const begin = performance.now();
		box.append(...pool(JSON.parse(text), "kube-system/10.0.0.0-16").flat().filter(Boolean));
		await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
		return performance.now() - begin;
	})()`)
	t.Logf("65,536 cells, from the JSON to the frame: %.0f ms", took)
	if took > 3000 {
		t.Errorf("65,536 cells took %.0f ms", took)
	}
}

// The fill is drawn from what a Prometheus answers. Where it fails, the page has its words instead.
func TestUI_FillOverTime(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	var isBroken atomic.Bool
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isBroken.Load() {
			fmt.Fprint(w, `{"status":"error","error":"<img src=x onerror='window.hacked=1'>"}`)
			return
		}
		var from, to int64
		fmt.Sscan(r.URL.Query().Get("start"), &from)
		fmt.Sscan(r.URL.Query().Get("end"), &to)
		var values []string
		for at := from; at <= to; at += 14400 {
			if gap := at - from; gap < 500_000 || gap > 900_000 {
				values = append(values, fmt.Sprintf(`[%d,"%.3f"]`, at, 0.2+0.6*float64(at-from)/float64(to-from)))
			}
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[%s]}]}}`,
			strings.Join(values, ","))
	}))
	defer prometheus.Close()
	_, url := ui(t, "--snapshot", sampleCluster, "--prometheus", prometheus.URL)
	b.open(url + "#/pool/kube-system%2F10.0.0.0-24")
	b.shows(".fill", "From 20 % at 2026-10-21 10:00 UTC to 80 % at 2026-11-20 10:00 UTC; minimum 20 %, maximum 80 %.")
	equal(t, "the pieces of the line", evaluate[int](b, `document.querySelector(".fill path:last-child").
		getAttribute("d").split("M").length - 1`), 2)
	found := evaluate[string](b, axeCore(t)+`;axe.run().then((r) => JSON.stringify(r.violations.map((v) => v.id)))`)
	equal(t, "violations", found, "[]")

	isBroken.Store(true)
	_, url = ui(t, "--snapshot", sampleCluster, "--prometheus", prometheus.URL)
	b.open(url + "#/pool/kube-system%2F10.0.0.0-24")
	b.shows(".fill", "Prometheus reports an error: ", "<img src=x")
	b.shows(".said")
	equal(t, "what an error made", evaluate[int](b, `document.querySelectorAll("main img, main svg").length`), 0)
}
