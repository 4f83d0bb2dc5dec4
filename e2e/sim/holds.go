package sim

import (
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// leaseLasts is how long whereabouts' Leases last without a renewal.
const leaseLasts = 1500 * time.Millisecond

func holderOf(o *fakeapi.Object) string {
	if o == nil {
		return ""
	}
	spec, _ := o.Content["spec"].(map[string]any)
	holder, _ := spec["holderIdentity"].(string)
	return holder
}

// leasesOf are whereabouts' Leases that a write of the product needs. A create needs none: it completes what was
// written under a hold. Neither does the delete of a reservation that the process then creates again.
func (s *Simulation) leasesOf(w *call) []string {
	switch {
	case w.Resource == fakeapi.Pools && w.Method == http.MethodPatch:
		if n := s.netOf(w.Key); n != nil && n.of != nil {
			return []string{ippool.SharedLease, w.Name}
		}
		return []string{ippool.SharedLease}
	case w.Resource == fakeapi.Reservations && w.Method == http.MethodDelete && !w.client.recreates[w.Key]:
		return []string{ippool.SharedLease}
	}
	return nil
}

// leaseHolder is one holder of one of whereabouts' Leases.
type leaseHolder struct {
	lease    key
	identity string
}

// checkHold checks that a process holds the Leases, or all processes by the fence, when it sends a write. It cannot
// know before its next renewal that whereabouts has cleared its Lease: the identity of an ADD is that of each ADD and
// DEL for pods of that name, so two can take themselves for the holder, and the second clears the Lease whoever holds
// it by then (tryRelease in client-go reads the Lease anew).
func (s *Simulation) checkHold(w *call) {
	if w.client.identity == "" {
		return
	}
	for _, name := range s.leasesOf(w) {
		k := fakeapi.At(fakeapi.Leases, kubeSystem, name)
		h, isCleared := holderOf(s.api.Get(k)), time.Since(s.cleared[leaseHolder{k, w.client.identity}]) <= leaseLasts
		if h != w.client.identity && h != kube.FenceHolder && !isCleared {
			s.fail("%s is sent while %q holds the Lease %s", w, h, name)
		}
	}
}

// checkTaken checks that a process takes a Lease of whereabouts only if nobody holds it or it has expired.
func (s *Simulation) checkTaken(c fakeapi.Change, before *fakeapi.Object) {
	was, is, since := holderOf(before), holderOf(c.Object), s.renewed[c.Key]
	if s.writer != nil && s.writer.identity == "" && is == "" {
		s.cleared[leaseHolder{c.Key, was}] = since
	}
	if c.Name == ippool.SharedLease && was != is {
		s.countFence(was, is)
	}
	if s.renewed[c.Key] = time.Now(); s.writer == nil || s.writer.identity == "" || s.restoredSince(since) {
		return
	}
	if was != "" && was != is && was != s.writer.identity && was != kube.FenceHolder && time.Since(since) <= leaseLasts {
		s.fail("%s took the Lease %s from %s, which renewed it %s ago", is, c.Name, was, time.Since(since))
	}
}

// countFence counts how often whereabouts' Lease goes to a fence, and for how many seconds they hold it.
func (s *Simulation) countFence(was, is string) {
	switch kube.FenceHolder {
	case is:
		s.fenced = time.Now()
		s.count("fence")
	case was:
		s.counts["fence, seconds"] += int(time.Since(s.fenced).Seconds())
	}
}

// noteRequest records that a process reads whereabouts' Lease to take it, and whether it found a reservation that it
// was about to create.
func (s *Simulation) noteRequest(w *call, status int) {
	switch c := w.client; {
	case !c.product:
	case w.Method == http.MethodGet && w.Name == ippool.SharedLease:
		s.wanted = time.Now()
	case w.Method == http.MethodPost && w.Resource == fakeapi.Reservations:
		meta, _ := fakeapi.Decode(w.Body)["metadata"].(map[string]any)
		k := w.Key
		k.Name, _ = meta["name"].(string)
		if c.recreates == nil {
			c.recreates = map[key]bool{}
		}
		c.recreates[k] = status == http.StatusConflict
	}
}

// occupy holds whereabouts' shared Lease as soon as it is free, as an ADD does whose requests take long.
func (s *Simulation) occupy(isEnd func() bool) {
	const holder = "default/elsewhere"
	k, isOver := fakeapi.At(fakeapi.Leases, kubeSystem, ippool.SharedLease), isEnd()
	if h := holderOf(s.api.Get(k)); !s.away && (h == holder || h == "" && !isOver) {
		spec := map[string]any{"holderIdentity": holder, "leaseDurationSeconds": 1,
			"renewTime": s.api.Now().UTC().Format(metav1.RFC3339Micro)}
		if isOver {
			spec["holderIdentity"] = ""
		}
		s.edit(k, holder, func(c map[string]any) { c["spec"] = spec })
	}
	if !isOver {
		s.after(300*time.Millisecond, func() { s.occupy(isEnd) })
	}
}

// backWhileWaiting: a node is unreachable for longer than --unreachable-node-timeout, and its pod is deleted by force.
// A person releases the address. While that process waits for whereabouts' Lease, or for a list, the node is back
// and reports the sandbox, which still runs.
func (s *Simulation) backWhileWaiting(p *podName, how int) {
	b := s.runningOf(p)
	if b == nil || b.node.agent == nil || b.node.agent.cancel == nil {
		return
	}
	n, out, back := b.node, time.Time{}, time.Time{}
	s.link(n, false)
	b.hangs = true
	s.deletePod(p, true)
	s.story(
		scene{time.Minute, func() bool { return !s.isReady(n) }, func() { out = time.Now() }},
		scene{2 * time.Minute, func() bool { return time.Since(out) > s.plan.Unreachable+2*time.Second }, func() {
			if how%3 == 0 {
				s.hangLastList()
			} else {
				s.occupy(func() bool {
					return time.Since(out) > 3*time.Minute || !back.IsZero() && time.Since(back) > evidenceLasts+holdLasts
				})
			}
			s.releaseByHand(0, 0, false)
		}},
		scene{2 * time.Minute, func() bool { return s.wanted.After(out) }, func() {
			s.link(n, true)
			back = time.Now()
		}},
		scene{time.Minute, func() bool { return time.Since(back) > evidenceLasts+3*holdLasts }, func() {}},
	)
}

// hangLastList has the pools hang when a release by hand reads them again, until its other lists are out of date.
func (s *Simulation) hangLastList() {
	s.take = func(w *call) bool {
		if !w.client.isByHand || w.Resource != fakeapi.Pools || !w.MetadataOnly() {
			return false
		}
		s.take, s.wanted = nil, time.Now()
		s.hold(w, evidenceLasts+2*time.Second, false) // a request ends after 30 s
		return true
	}
}
