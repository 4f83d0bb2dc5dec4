package memory

import (
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// item is what is known of one allocation or reservation. Nothing changes it, nor what it points to: successive
// memories share what a pass has not changed.
type item struct {
	first        time.Time
	confirmation *confirmation // nil where the last pass contradicted it
	pod          *pod          // with the owner's name in the last pass; nil for none
	past         *podPast      // nil for most
}

// pod is what matters later of a pod.
type pod struct {
	node, uid     string
	grace         time.Duration
	hasUniqueName bool
}

// podPast is what is known of earlier pods, and of others that carried the address.
type podPast struct {
	ranOn        []string      // nodes of earlier pods with the owner's name
	carriedOn    []string      // nodes of other pods that carried the address
	hasNameAlone bool          // no other pod has, or had, the name of the owner: it has one node in ranOn
	longestGrace time.Duration // longest grace period of any pod with the owner's name that was deleted
}

// next is what is known of the item after it was judged again.
func (s *item) next(it *judge.Item, o *facts.Observation, n *nodes) *item {
	next := *s
	if c := s.confirmation; c != nil && n.hasLost(c.withoutReport, s.first) {
		next.confirmation = nil
	}
	next.confirmation = next.confirmation.next(it, o)
	past := s.pods()
	// Whoever creates a pod names its node: one that does not exist proves nothing, and is not remembered.
	if nodes, known := o.Nodes.Get(); !known || nodes[it.ClaimedOn()] != nil {
		past.carriedOn = withNode(past.carriedOn, it.ClaimedOn())
	}
	if it.Owner().UID == "" {
		p := it.PodByOwnerName()
		next.pod = s.pod.next(p)
		past = past.after(s.pod, next.pod)
		if p != nil && !p.DeletionTime.IsZero() {
			past.longestGrace = max(past.longestGrace, p.GracePeriod)
		}
	}
	if !past.equals(s.pods()) {
		next.past = clone(past)
	}
	if next == *s {
		return s
	}
	return clone(next)
}

// clone returns a copy on the heap. The address of a variable would put each one there, changed or not.
func clone[T any](v T) *T { return &v }

// with is the item with another confirmation.
func (s *item) with(c *confirmation) *item {
	next := *s
	next.confirmation = c
	return &next
}

// staleSince is since when every pass judged the item Stale; zero if the last one did not.
func (s *item) staleSince() time.Time {
	if s.confirmation == nil {
		return time.Time{}
	}
	return s.confirmation.staleSince.at
}

// pods is what is known of earlier pods.
func (s *item) pods() podPast {
	if s.past == nil {
		return podPast{}
	}
	return *s.past
}

// next is what to keep of the pod by the owner's name, nil for none.
func (p *pod) next(of *podstate.Pod) *pod {
	if of == nil {
		return nil
	}
	now := pod{of.Node, of.UID, of.GracePeriod, of.HasUniqueName}
	if p != nil && *p == now {
		return p
	}
	return clone(now)
}

// after is the past with what a pod was, now that another pod, or nil for none, has its name.
func (p podPast) after(was, now *pod) podPast {
	if was == nil {
		return p
	}
	if now == nil || now.node != was.node {
		p.ranOn = withNode(p.ranOn, was.node)
	}
	if now == nil {
		p.hasNameAlone = was.hasUniqueName && len(p.ranOn) == 1
	}
	if was.uid != "" && (now == nil || now.uid != was.uid) {
		p.longestGrace = max(p.longestGrace, was.grace)
	}
	return p
}

func (p podPast) equals(other podPast) bool {
	return slices.Equal(p.ranOn, other.ranOn) && slices.Equal(p.carriedOn, other.carriedOn) &&
		p.hasNameAlone == other.hasNameAlone && p.longestGrace == other.longestGrace
}
