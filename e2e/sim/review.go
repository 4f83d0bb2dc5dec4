package sim

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/planfile"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// review plans releases as soon as something is stale, and has somebody read the plan for a time. It applies the plan,
// kills that process after a time, and applies the plan again; zero for no kill.
func (s *Simulation) review(reads, killAfter time.Duration, tries int) {
	if s.plan.Upstream {
		return
	}
	as := s.newClient("ip-reconcile-plan", nil)
	_, rec, err := s.reconciler(as, "plan")
	if err != nil {
		s.fail("set up a plan: %v", err)
		return
	}
	rec.Options.Repair, rec.Options.DryRun = false, true
	s.start(func() {
		out, err := rec.Run(s.ctx)
		as.post(func() {
			var items []*judge.Item
			if err == nil {
				items = planfile.Select(out)
			}
			if len(items) == 0 {
				if tries > 0 {
					s.after(5*time.Second, func() { s.review(reads, killAfter, tries-1) })
				}
				return
			}
			s.count("planned")
			s.say("a plan has %d items", len(items))
			var text bytes.Buffer
			if err := view.Write(&text, "json", planfile.New(view.NewHeader(view.KindPlan, "",
				view.Cluster{UID: "sim"}, out.Observation.Now), items)); err != nil {
				s.fail("write a plan: %v", err)
			}
			s.after(reads, func() { s.applyPlan(text.Bytes(), killAfter) })
		})
	})
}

// applyPlan applies the file of a plan as the command apply does.
func (s *Simulation) applyPlan(text []byte, killAfter time.Duration) {
	f, err := planfile.Read(text)
	if err != nil {
		s.fail("read a plan: %v", err)
		return
	}
	s.starts++
	as := s.newClient(fmt.Sprintf("ip-reconcile-apply-%d", s.starts), nil)
	as.product, as.isByHand, as.reviewed = true, true, map[allocation]bool{}
	for _, it := range f.Items {
		as.reviewed[allocation{ID: it.ContainerID, PodRef: it.PodRef, IfName: it.IfName}] = true
	}
	cluster, rec, err := s.reconciler(as, as.name)
	if err != nil {
		s.fail("set up an application: %v", err)
		return
	}
	rec.Leases, rec.BreakerStore, rec.RestoreStore = cluster, cluster.BreakerStore(), cluster.RestoreStore()
	rec.Options.Repair, rec.Options.ByHand, rec.Options.Only, rec.MaxWait = false, true, f.Allows, 3*time.Minute
	ctx, cancel := context.WithCancel(s.ctx)
	if killAfter > 0 {
		s.after(killAfter, func() {
			as.killed.Store(true)
			cancel()
			s.kills++
			s.after(s.between(0, 10*time.Second), func() { s.applyPlan(text, 0) })
		})
	}
	s.start(func() {
		defer cancel()
		out, err := rec.Run(ctx)
		as.post(func() { s.applied(f, out, err) })
	})
}

func (s *Simulation) applied(f *planfile.File, out *reconciler.Result, err error) {
	if err != nil {
		s.count("application failed")
		return
	}
	for _, it := range out.Released {
		if it.Allocation != nil {
			s.count("released by a plan")
		}
	}
	refused := len(out.Refused)
	if f.Complete(out); len(out.Refused) > refused {
		s.count("changed since a plan")
	}
	s.say("a plan is applied: %d released, %d not", len(out.Released), len(out.Refused))
}
