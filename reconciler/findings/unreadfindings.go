package findings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// unreadFindings are the findings on sandboxes and pods whose addresses are unknown and that hold, or may hold, stale
// addresses of others' networks. Such a network has neither a pool with an allocation of the pod, nor a range that the
// CNI caches name.
func (x *finder) unreadFindings(items []*judge.Item) (found []Finding) {
	for i := range x.UnreadSandboxes() {
		if u := &x.UnreadSandboxes()[i]; u.IsAny {
			found = append(found, unreadSandboxFinding(u, "its node's report lacks networks of it, and "+u.Why+
				": it may carry any address, so all stale addresses are held"))
		}
	}
	var owners map[ownedPool]bool
	held, count := map[*facts.UnreadSandbox][]string{}, map[*facts.UnreadPod]int{}
	for _, it := range items {
		if it.Allocation == nil || it.Evidence() == nil || it.Verdict != judge.Held || it.Reason != judge.ClaimedByOther {
			continue
		}
		u, p := it.Evidence().UnreadRival()
		if owners == nil && (u != nil || p != nil) {
			owners = x.ownedPools()
		}
		switch {
		case u != nil && !u.IsAny && !u.Names(it.IndexedPool()) && !owners[ownedPool{it.IndexedPool(), u.Pod()}]:
			held[u] = append(held[u], it.IndexedPool().Ref())
		case p != nil && p.NAD == nil && !owners[ownedPool{it.IndexedPool(), p.Pod.String()}]:
			count[p]++
		}
	}
	for u, pools := range held {
		found = append(found, unreadSandboxFinding(u, fmt.Sprintf("its node's report lacks addresses of it: it may "+
			"carry %d stale addresses of pools that have no allocation of its pod, such as %s, and they are held",
			len(pools), slices.Min(pools))))
	}
	for p, n := range count {
		found = append(found, Finding{Kind: UnreadSandbox, Pods: []string{p.Pod.String()}, Node: p.Pod.Node,
			Message: fmt.Sprintf("pod %s may carry any address, so %d stale addresses of pools that have no allocation of it "+
				"are held: %s, and its networks are unknown", p.Pod, n, p.Why)})
	}
	return mergedByPod(found)
}

func unreadSandboxFinding(u *facts.UnreadSandbox, why string) Finding {
	return Finding{Kind: UnreadSandbox, Pods: []string{u.Pod()}, ContainerIDs: []string{u.ID}, Node: u.Report.Name,
		Message: fmt.Sprintf("the addresses of sandbox %s of pod %s on %s are unknown: %s",
			u.ID, u.Pod(), u.Report.Name, why)}
}

// mergedByPod keeps one of the findings on a pod and sandbox.
func mergedByPod(found []Finding) []Finding {
	slices.SortFunc(found, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.Pods[0], b.Pods[0]), slices.Compare(a.ContainerIDs, b.ContainerIDs),
			strings.Compare(a.Message, b.Message))
	})
	return slices.CompactFunc(found, func(a, b Finding) bool { return a.Is(b) })
}
