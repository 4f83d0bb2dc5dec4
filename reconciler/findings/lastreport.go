package findings

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// isSilent reports whether a report has expired and its node may still run what it lists. Findings that rest on it are
// kept as they were reported, and are not repaired.
func (x *finder) isSilent(r *facts.Report) bool {
	return !r.IsFresh(x.Now()) && !x.IsDead(r.Name) && !x.IsObsolete(r)
}

// wasReady reports whether a sandbox is READY by a fresh report, or by the last report of a silent node.
func (x *finder) wasReady(g *facts.Mention) bool {
	return x.IsReady(g) || g.Kind == facts.OfSandbox && g.State == v1alpha1.SandboxReady && x.isSilent(g.Report)
}

// asReported marks a finding with the age of the oldest expired report that it rests on. Such a finding is not
// repaired: what it describes may have ended since.
func (x *finder) asReported(f *Finding, reports ...*facts.Report) {
	var nodes []string
	var oldest time.Time
	for _, r := range reports {
		if r.IsFresh(x.Now()) {
			continue
		}
		nodes = append(nodes, r.Name)
		if at := r.ReportedAt(); len(nodes) == 1 || at.Before(oldest) {
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
	f.Repair, f.silent = nil, facts.SortedUnique(nodes)
	f.Message += fmt.Sprintf("; as reported %s: there was no fresh report of %s since, so this may have ended",
		age, andOthers(f.silent))
}

// isOvertaken reports whether a sandbox of an expired report has probably lost its address since: the pools record the
// address for others only, and no pod of the sandbox names it.
func (x *finder) isOvertaken(b *facts.SandboxAddress) bool {
	if b.Report.IsFresh(x.Now()) {
		return false
	}
	addr, _ := podstate.ParseAddress(*b.Address)
	entries := x.EntriesFor(addr)
	isIts := func(e facts.Entry) bool { return e.ContainerID == b.ID }
	if len(entries) == 0 || slices.ContainsFunc(entries, isIts) {
		return false
	}
	pod := x.PodOf(&b.Mention)
	return pod == nil || !slices.ContainsFunc(x.PodsNaming(addr), func(c facts.PodAddress) bool {
		return c.Pod == pod && !x.HasStopped(pod)
	})
}

// endedWhenReported reports whether the sandbox of an entry is known not to run, or was so by the last reports of
// nodes that are silent now. They are the second result. A sandbox that no report has may be younger than the silence,
// if its pod is bound to a silent node.
func (x *finder) endedWhenReported(e *judge.Evidence, mentions []facts.Mention) (ended bool, silent []*facts.Report) {
	if e.HasEndedSandbox() {
		return true, nil
	}
	if e.Problem != "" || e.Sandbox != judge.NoFreshReport || e.NodesUnknown {
		return false, nil
	}
	wasSeen := false
	for i := range mentions {
		g := &mentions[i]
		if x.MayRun(g) {
			return false, nil
		}
		wasSeen = wasSeen || g.Kind != facts.OfAttachment
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
