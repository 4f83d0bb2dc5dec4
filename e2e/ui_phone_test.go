//go:build slow

package e2e

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
)

// cutText lists what a person on a phone could not see: elements beyond the window, and those with more text than room.
const cutText = `[...document.querySelectorAll("header, header *, main, main *")].filter((e) => {
	if (e.closest("canvas, svg, thead, option") || !e.getClientRects().length) return false;
	const box = e.getBoundingClientRect();
	const isCut = e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 && getComputedStyle(e).overflowX !== "visible";
	return isCut || box.right > innerWidth + 1 || box.left < -1;
}).map((e) => e.tagName + "." + e.className + ": " + e.innerText.slice(0, 60)).join("\n")`

// On a phone no table and no text is cut, and nothing has to be scrolled to the side.
func TestUI_FitsAPhone(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	_, sample := ui(t, "--snapshot", sampleCluster)
	_, full := ui(t, "--snapshot", fullPool(t), "--now", "2026-11-20T10:00:00Z")
	views := []string{sample, full, full + "#/pool/kube-system%2F10.2.0.0-30"}
	for _, view := range []string{"#/explain/10.0.0.1", "#/explain/10.0.0.22", "#/explain/node%2Fworker-3",
		"#/explain/default%2Fweb-0", "#/explain/10.0.0.200", "#/pool/kube-system%2F10.0.0.0-24",
		"#/pool/kube-system%2Fbroken"} {
		views = append(views, sample+view)
	}
	for _, width := range []int64{360, 390} {
		b.do(chromedp.EmulateViewport(width, 800))
		for _, view := range views {
			b.open(view)
			b.shows("#time", "judged at 2026-11-20")
			evaluate[int](b, `[...document.querySelectorAll("main details")].map((d) => { d.open = true; }).length`)
			at := fmt.Sprint(view, " ", width)
			equal(t, "what is cut of "+at, evaluate[string](b, cutText), "")
			wide := evaluate[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth")
			equal(t, "pixels beside the window of "+at, wide, 0)
		}
		b.open(sample)
		equal(t, "cells of the table of pools without the name of their column", evaluate[int](b, `
			[...document.querySelectorAll("main td")].filter((c) =>
				!getComputedStyle(c, "::before").content.match(/\w/)).length`), 0)
	}
}
