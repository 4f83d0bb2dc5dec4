package judge

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// isSilent reports whether a report has expired and its node may still run what it lists. Findings that rest on it are
// kept as they were reported, and are not repaired.
func (x *finder) isSilent(r *report) bool {
	return !r.IsFresh(x.Now()) && !x.isDead(r.Name) && !x.isObsolete(r)
}

// wasReady reports whether a sandbox is READY by a fresh report, or by the last report of a silent node.
func (x *finder) wasReady(g *mention) bool {
	return x.isReady(g) || g.kind == ofSandbox && g.State == v1alpha1.SandboxReady && x.isSilent(g.report)
}

// asReported marks a finding with the age of the oldest expired report that it rests on. Such a finding is not
// repaired: what it describes may have ended since.
func (x *finder) asReported(f *Finding, reports ...*report) {
	var nodes []string
	var oldest time.Time
	for _, r := range reports {
		if r.IsFresh(x.Now()) {
			continue
		}
		nodes = append(nodes, r.Name)
		if at := r.reportedAt(); len(nodes) == 1 || at.Before(oldest) {
			oldest = at
		}
	}
	if len(nodes) == 0 {
		return
	}
	age := "at an unknown time"
	if !oldest.IsZero() {
		f.ReportedAt = oldest.UTC().Format(time.RFC3339)
		age = duration.HumanDuration(max(x.Now().Sub(oldest), 0)) + " ago"
	}
	f.Repair, f.silent = nil, sortedUnique(nodes)
	f.Message += fmt.Sprintf("; as reported %s: there was no fresh report of %s since, so this may have ended",
		age, andOthers(f.silent))
}

// isOvertaken reports whether a sandbox of an expired report has probably lost its address since: the pools record the
// address for others only, and no pod of the sandbox names it.
func (x *finder) isOvertaken(b *sandboxAddress) bool {
	if b.report.IsFresh(x.Now()) {
		return false
	}
	addr, _ := podstate.ParseAddress(*b.Address)
	entries := x.entriesFor(addr)
	isIts := func(e entry) bool { return e.ContainerID == b.ID }
	if len(entries) == 0 || slices.ContainsFunc(entries, isIts) {
		return false
	}
	pod := x.podOf(&b.mention)
	return pod == nil || !slices.ContainsFunc(x.podsNaming(addr), func(c podAddress) bool {
		return c.pod == pod && !x.hasStopped(pod)
	})
}

// endedWhenReported reports whether the sandbox of an entry is known not to run, or was so by the last reports of
// nodes that are silent now. They are the second result. A sandbox that no report has may be younger than the silence,
// if its pod is bound to a silent node.
func (x *finder) endedWhenReported(e *Evidence, mentions []mention) (ended bool, silent []*report) {
	if e.hasEndedSandbox() {
		return true, nil
	}
	if e.Problem != "" || e.Sandbox != NoFreshReport || e.NodesUnknown {
		return false, nil
	}
	wasSeen := false
	for i := range mentions {
		g := &mentions[i]
		if x.mayRun(g) {
			return false, nil
		}
		wasSeen = wasSeen || g.kind != ofAttachment
	}
	for _, name := range e.WithoutReport {
		r := x.Report(name)
		if r == nil || !x.isSilent(r) || !wasSeen && e.Pod != nil && e.Pod.Node == name {
			return false, nil
		}
		silent = append(silent, r)
	}
	return true, silent
}
