package kube_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore/restoretest"
)

// After a restore of etcd one answer of an API server that has just started (403, 500) to the GET of the own
// namespace must not end the fence: no node has reported, and three allocations lack.
func TestGuard_OutlivesAnUnreadNamespace(t *testing.T) {
	for name, code := range map[string]int{"403": http.StatusForbidden, "500": http.StatusInternalServerError} {
		t.Run(name, func(t *testing.T) {
			f := newFakeAPI(t)
			f.answers[namespace] = fails(code)
			o, err := f.cluster(t).List(t.Context()) // all else is answered
			check(t, err)
			w := restoretest.NewCluster()
			w.Guarded(t, func(t *testing.T, g *restore.Guard) {
				w.RestoreEtcd()
				w.IsFenced(t, true)
				o.FencedSince = w.Since()
				o.Reports = facts.Complete([]*podstate.Report{restoretest.Report("worker-1", time.Time{})}, "")
				g.PassEnded(restore.Pass{ToRepair: 3, Restore: &restore.Status{Restored: time.Now(),
					Awaiting: []string{"worker-1"}}, Judgement: &judge.Judgement{Observation: o,
					Nodes: map[string]facts.NodeState{"worker-1": facts.NodeNoFreshReport}}})
				w.Wait(2 * time.Second)
				w.IsFenced(t, true) // and a pass half a second later would find no pause
			})
		})
	}
}
