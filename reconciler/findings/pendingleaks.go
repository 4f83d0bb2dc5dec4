package findings

import (
	"fmt"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// pendingLeaks are the findings on Pending pods with several allocations of one interface in a pool, whose sandboxes
// have ended. They are in use while the next sandbox may get one of them, and may fill the pool.
func pendingLeaks(items []*judge.Item) (found []Finding) {
	type owner struct {
		pool           *ippool.Pool
		podRef, ifName string
	}
	leaks, owners := map[owner][]*judge.Item{}, []owner(nil)
	for _, it := range items {
		if it.Allocation == nil || it.Reason != judge.PodPending {
			continue
		}
		if e := it.Evidence(); e.Ownership != judge.NotItsPod && e.HasEndedSandbox() {
			o := owner{it.Pool, it.PodRef(), it.IfName()}
			if leaks[o] == nil {
				owners = append(owners, o)
			}
			leaks[o] = append(leaks[o], it)
		}
	}
	for _, o := range owners {
		var ips, ids []string
		for _, it := range leaks[o] {
			ips, ids = append(ips, it.Text()), append(ids, it.ContainerID())
		}
		if len(ids) < 2 {
			continue
		}
		found = append(found, Finding{Kind: PendingLeak, IP: strings.Join(ips, ","), Pool: o.pool.Ref(),
			Pods: []string{o.podRef}, ContainerIDs: ids, Node: leaks[o][0].Node(), Message: fmt.Sprintf("%s is Pending and has "+
				"%d allocations in pool %s whose sandboxes have ended; they are kept because its next sandbox may get one of them",
				o.podRef, len(ids), o.pool.Ref())})
	}
	return found
}
