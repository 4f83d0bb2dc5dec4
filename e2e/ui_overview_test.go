//go:build slow

package e2e

import (
	"strings"
	"testing"
)

// Who carries an address is a link, with node, age and owner: each pod of a conflict, and an allocation's claimant.
func TestUI_CarriersAreLinks(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	_, url := ui(t, "--snapshot", sampleCluster)
	b.open(url)
	for _, pod := range []string{"default/twin", "default/web-0"} {
		b.click("Overview")
		b.shows(".attention", "Two pods at one address", pod+" on worker-", ", for ")
		b.click(pod)
		b.shows("h1", "Pod "+pod)
	}
	b.open(url + "#/explain/10.0.0.1")
	b.shows(".chain .alarm", "default/twin on worker-3, for ")
	evaluate[bool](b, `Boolean(document.querySelector(".chain .alarm a[href*=twin]").click())`)
	b.shows("h1", "Pod default/twin")
}

// The overview says each thing once: a finding or a line of status that has a card is nowhere else.
func TestUI_OverviewSaysEachThingOnce(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	_, sample := ui(t, "--snapshot", sampleCluster)
	_, full := ui(t, "--snapshot", fullPool(t), "--now", "2026-11-20T10:00:00Z")
	for url, all := range map[string][]string{
		sample: {"10.0.0.1 is carried by default/twin", "default/lost carries 10.0.0.40",
			"worker-3 has had no fresh SandboxReport",
			"has no reservation: a pool", "podref is missing", "Pools, reservations and pods disagree", "9 of them stale"},
		full: {"Releases are paused in 1 pool", "2 of 2 addresses are used"},
	} {
		b.open(url)
		b.shows("main", "Needs attention first")
		text := strings.Join(strings.Fields(b.text("main")), " ")
		for _, words := range all {
			equal(t, "times that the overview says "+words, strings.Count(text, words), 1)
		}
		headings := b.text("main h2")
		equal(t, "the order of the overview", strings.HasPrefix(headings, "Needs attention first\nPools"), true)
	}
}

// Held and Stale are apart in the bar, the legend, the table and the lists.
func TestUI_HeldAndStaleAreApart(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	_, url := ui(t, "--snapshot", sampleCluster)
	b.open(url)
	b.shows("main h2", "Stale", "Held")
	b.shows(".legend", "in use", "held", "stale", "blocked: reserved, or carried without an allocation", "free")
	equal(t, "the columns of the table of pools", b.text("main thead th"),
		"Pool\nRange\nFill\nIn use\nHeld\nStale\nBlocked\nFree\nUsable\nWaiting\nKind\nWhat\nExplain")
	equal(t, "pools whose numbers do not add up", evaluate[int](b, `
		[...document.querySelectorAll("tbody tr")].filter((r) => {
		const [use, held, stale, blocked, free, usable] = [3, 4, 5, 6, 7, 8].map((i) => parseInt(r.cells[i]?.innerText));
		const outside = Number(r.cells[8]?.innerText.match(/and (\d+) outside/)?.[1] ?? 0);
		return usable >= 0 && use + held + stale + blocked + free !== usable + outside;
	}).length`), 0)
	equal(t, "the parts of the bar of the first pool", evaluate[string](b,
		`[...document.querySelector("tbody .bar").children].map((e) => e.className).join()`), "InUse,Held,Stale,Blocked")
	b.open(url + "#/pool/kube-system%2F10.0.0.0-24")
	b.shows(".legend", "of them without an allocation",
		"reserved: by another pool of the network, or without an allocation")
}

// Nothing unknown is shown as zero or as in order.
func TestUI_UnknownIsNoZero(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	_, sample := ui(t, "--snapshot", sampleCluster)
	dir := snapshotOf(t, poolYAML("10.3.0.0-30", "10.3.0.0/30", "", "one"),
		"apiVersion: v1\nkind: Pod\nmetadata: {name: one, namespace: default, uid: uid-one}\n"+
			"spec: {nodeName: worker-1}\nstatus: {phase: Running}")
	_, without := ui(t, "--snapshot", dir, "--now", "2026-11-20T10:00:00Z") // without a definition
	for url, ref := range map[string]string{sample: "kube-system/broken", without: "kube-system/10.3.0.0-30"} {
		b.open(url)
		b.shows("main", "Unknown: ")
		row := evaluate[string](b, `[...document.querySelectorAll("tbody tr")].filter((r) => r.innerText.startsWith("`+ref+
			`")).map((r) => [2, 6, 7, 8, 9].map((i) => r.cells[i].innerText).join()).join()`)
		equal(t, "what is unknown of "+ref, row, "unknown,unknown,unknown,unknown,unknown")
		b.click(ref)
		b.shows("main", "Pods that wait for an address (unknown)")
	}
	b.open(without)
	verdict := b.text(".verdict")
	equal(t, "a verdict with a check mark: "+verdict, strings.Contains(verdict, "✓"), false)
}

// A snapshot has no history, so the page has no link to one.
func TestUI_ASnapshotHasNoHistory(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	_, url := ui(t, "--snapshot", sampleCluster)
	b.open(url)
	b.shows("#time", "Snapshot, judged at")
	equal(t, "the links to views", strings.TrimSpace(b.text("nav a:not([hidden])")), "Overview")
	b.open(url + "#/explain/10.0.0.22")
	equal(t, "an offer of a history", strings.Contains(b.text("main summary"), "History"), false)
}
