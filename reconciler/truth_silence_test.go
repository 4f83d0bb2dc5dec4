package reconciler

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// drawCluster draws what a pass may see: of a cluster as it really is, or of one
// that could not be, in which names, addresses and ids often coincide.
func drawCluster(rt *rapid.T) (cluster []Part, story string) {
	if rapid.Bool().Draw(rt, "as it may be") {
		p := plots(16).Draw(rt, "plot")
		w := newTruth(p, rapid.SampledFrom([]names{apart, colliding}).Draw(rt, "names"))
		w.run(p)
		return w.parts(), "what happened:\n" + strings.Join(w.log, "\n") + "\n"
	}
	c := NewRandom(rapid.Uint64Range(0, 1<<20).Draw(rt, "scene"), 1)
	return partsOf(ObserveDistinct(c.Cluster())), ""
}

// partsOf is the inverse of Observe.
func partsOf(o *Observed) (parts []Part) {
	for _, p := range o.Pools {
		parts = append(parts, func(o *Observed) { o.Pools = append(o.Pools, p) })
	}
	for _, r := range o.Reservations {
		parts = append(parts, func(o *Observed) { o.Reservations = append(o.Reservations, r) })
	}
	for _, r := range o.Reports {
		parts = append(parts, func(o *Observed) { o.Reports = append(o.Reports, r) })
	}
	for name, n := range o.NADs {
		parts = append(parts, func(o *Observed) { o.NADs[name] = n })
	}
	for name, p := range o.Pods {
		parts = append(parts, func(o *Observed) { o.Pods[name] = p })
	}
	for name, n := range o.Nodes {
		parts = append(parts, func(o *Observed) { o.Nodes[name] = n })
	}
	return parts
}

// verdictsOf has those of all that is recorded, by what it is.
func verdictsOf(o *Observed, policy judge.Policy) map[judge.ID]*judge.Item {
	j, found := Judged(o, policy), map[judge.ID]*judge.Item{}
	for _, it := range slices.Concat(j.Allocations, j.Reservations) {
		found[it.ID()] = it
	}
	return found
}

// freedBetween returns the items that the second check has as Stale and the first has not.
func freedBetween(before, after map[judge.ID]*judge.Item) (found []judge.ID) {
	for id, it := range after {
		if was := before[id]; was != nil && was.Verdict != judge.Stale && it.Verdict == judge.Stale {
			found = append(found, id)
		}
	}
	return found
}

// smallest is the cluster without whatever is not needed for its failure.
func smallest(cluster []Part, fails func([]Part) bool) []Part {
	for i := 0; i < len(cluster); {
		less := slices.Delete(slices.Clone(cluster), i, i+1)
		if fails(less) {
			cluster, i = less, 0
		} else {
			i++
		}
	}
	return cluster
}

// neverFrees fails where a change of a cluster frees what was not free; the cluster is
// shown as small as it gets.
func neverFrees(rt *rapid.T, cluster []Part, story, says string, change func(*Observed), unless func(o *Observed, before, after *judge.Item) bool) {
	freed := func(cluster []Part) (first, second *judge.Item) {
		before, changed := ObserveDistinct(cluster), ObserveDistinct(cluster)
		change(changed)
		was, is := verdictsOf(before, judge.Policy{}), verdictsOf(changed, judge.Policy{})
		for _, id := range freedBetween(was, is) {
			if was[id].Reason == judge.Malformed { // a name may be read where there is another node
				continue
			}
			if uidsOf(before, evidenceOf(was[id]).ContainerID) > 1 { // no runtime gives one id twice
				continue
			}
			if unless == nil || !unless(changed, was[id], is[id]) {
				return was[id], is[id]
			}
		}
		return nil, nil
	}
	if it, _ := freed(cluster); it == nil {
		return
	}
	small := smallest(cluster, func(less []Part) bool { it, _ := freed(less); return it != nil })
	first, second := freed(small)
	after := ObserveDistinct(small)
	change(after)
	rt.Fatalf("%s: %s %s (%s) of %s was %v: %s\nand is %v: %s\n%swhat is seen then, as far as it matters:\n%s", says, first.Object(), first.Text(), first.ContainerID(), first.PodRef(),
		sayOutcome(first), first.Message(), sayOutcome(second), second.Message(), story, describeCluster(after))
}

// uidsOf is how many UIDs the reports give an id.
func uidsOf(o *Observed, id string) int {
	uids := map[string]bool{}
	for _, r := range o.Reports {
		for _, b := range r.Sandboxes {
			uids[b.UID] = uids[b.UID] || b.ID == id
		}
		for _, a := range r.Attachments {
			uids[a.UID] = uids[a.UID] || a.ID == id
		}
		for _, g := range r.Gone {
			uids[g.UID] = uids[g.UID] || g.ID == id
		}
	}
	maps.DeleteFunc(uids, func(_ string, has bool) bool { return !has })
	return len(uids)
}

// evidenceOf is what an item's verdict rests on: of a reservation with an
// allocation, that on the allocation whose verdict it shares.
func evidenceOf(it *judge.Item) *judge.Evidence {
	if e := it.Evidence(); e != nil {
		return e
	}
	return it.SharesVerdictOf().Evidence()
}

func sayOutcome(it *judge.Item) string {
	return Want(it.Verdict, it.Reason, it.Proven, evidenceOf(it).Sandbox).String()
}

// manyTimes checks a property of small clusters: one costs less than a millisecond,
// and what matters in it is rare.
func manyTimes(t *testing.T, times int, property func(*rapid.T)) {
	for range times {
		if rapid.Check(t, property); t.Failed() {
			return
		}
	}
}

// silenced has the agent of a node stop reporting: its last report stays.
func silenced(node string, since time.Duration) func(*Observed) {
	return func(o *Observed) {
		for i, r := range o.Reports {
			if at := o.Now.Add(-since); r.Name == node && r.Renewed.After(at) && !lostNode(o, r) {
				old := *r
				old.Renewed, old.LeaseRenewed = at, at
				o.Reports[i] = &old
			}
		}
	}
}

// renewedNoMore leaves a report of which no Lease has the hash.
func renewedNoMore(node string) func(*Observed) {
	return func(o *Observed) {
		for i, r := range o.Reports {
			if r.Name == node && !lostNode(o, r) {
				old := *r
				old.Renewed = time.Time{}
				o.Reports[i] = &old
			}
		}
	}
}

// lostNode reports whether silence is what is to be expected of the node, so that
// what it ran ended with it.
func lostNode(o *Observed, r *podstate.Report) bool {
	n := o.Nodes[r.Name]
	return len(o.Nodes) > 0 && (n == nil || n.Dead() || r.BootID != "" && n.BootID != r.BootID)
}

// An agent that stops reporting takes away what was known, and what is not known
// frees nothing.
func TestSilencingAnAgentNeverFreesAnything(t *testing.T) {
	manyTimes(t, 8, func(rt *rapid.T) {
		cluster, story := drawCluster(rt)
		o := ObserveDistinct(cluster)
		since := freshFor + time.Second
		saidOtherwise := func(_ *Observed, before, after *judge.Item) bool {
			if before.Reason == judge.ClaimedByOther && after.Proven {
				// The pod's own node reports the end of its sandbox. The report of a copied
				// machine had hidden that.
				e := evidenceOf(after)
				return e.Ownership == judge.ItsPod && slices.Equal(e.Nodes, []string{e.Pod.Node})
			}
			if after.Reason == judge.PodFinished { // kubelet said so since the agent was heard
				return evidenceOf(after).Pod.LastFinished.After(o.Now.Add(-since))
			}
			return after.Reason == judge.NodeMissingReason // which waits to be confirmed from when that node was heard
		}
		for _, r := range o.Reports {
			neverFrees(rt, cluster, story, "the agent of "+r.Name+" stops reporting", silenced(r.Name, since), saidOtherwise)
			neverFrees(rt, cluster, story, "the report of "+r.Name+" is renewed no more", renewedNoMore(r.Name), saidOtherwise)
		}
	})
}

// freshFor is longer than a report counts as heard.
const freshFor = time.Minute

// A few agents know of a few nodes. Where they have seen the sandbox they may
// say what became of it; that they have not is no reason to be less careful
// than without them, unless every node that could run it is heard.
func TestAgentsOnSomeNodesAreNeverLessCarefulThanNone(t *testing.T) {
	manyTimes(t, 8, func(rt *rapid.T) {
		cluster, story := drawCluster(rt)
		withAgents := ObserveDistinct(cluster)
		without := append(slices.Clone(cluster), func(o *Observed) { o.Reports, o.Past = nil, nil })
		if len(withAgents.Reports) == 0 {
			return
		}
		neverFrees(rt, without, story, "there are agents", func(o *Observed) {
			o.Reports, o.Past = slices.Clone(withAgents.Reports), withAgents.Past
		}, func(o *Observed, _, after *judge.Item) bool {
			return evidenceOf(after).Sandbox != judge.Absent || allHeard(o, after)
		})
	})
}

// allHeard reports whether all nodes that may have a sandbox that is absent have a fresh report:
// the agents of the pod's own node, and of the nodes that had it; where none had,
// of those of its slice, or else of all that are selected or have a report.
func allHeard(o *Observed, it *judge.Item) bool {
	e := evidenceOf(it)
	if it.Evidence() == nil {
		it = it.SharesVerdictOf()
	}
	fresh := map[string]bool{}
	var had []string
	for _, r := range o.Reports {
		fresh[r.Name] = r.Fresh(o.Now)
		if it.ContainerID() != "" && hasID(r, it.ContainerID()) {
			had = append(had, r.Name)
		}
	}
	silent := func(node string) bool {
		n := o.Nodes[node]
		lost := len(o.Nodes) > 0 && n == nil || n != nil && n.Dead()
		return !fresh[node] && !lost
	}
	if e.Pod != nil && e.Pod.Node != "" && silent(e.Pod.Node) {
		return false
	}
	sliced := it.Pool != nil && slices.ContainsFunc(slices.Collect(maps.Values(o.NADs)), func(n *ippool.NAD) bool {
		return slices.ContainsFunc(n.Networks, func(n ippool.Network) bool { _, ok := n.SliceOf(it.Pool); return ok })
	})
	if len(had) > 0 || sliced {
		return !slices.ContainsFunc(slices.Concat(had, e.Nodes), silent)
	}
	for _, n := range o.Nodes {
		if (judge.Policy{}).Selector()(n) && silent(n.Name) {
			return false
		}
	}
	return !slices.ContainsFunc(o.Reports, func(r *podstate.Report) bool { return silent(r.Name) })
}

func hasID(r *podstate.Report, id string) bool {
	return slices.ContainsFunc(r.Sandboxes, func(b v1alpha1.Sandbox) bool { return b.ID == id }) ||
		slices.ContainsFunc(r.Attachments, func(a v1alpha1.Attachment) bool { return a.ID == id })
}
