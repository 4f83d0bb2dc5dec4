package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// taintsNote names the nodes whose out-of-service taint proves nothing because a restore of etcd may have brought it
// back.
func (j *Judgement) taintsNote() string {
	nodes := j.facts.DoubtedTaints()
	if len(nodes) == 0 {
		return ""
	}
	return fmt.Sprintf("the out-of-service taint of %s may come from etcd's backup and proves nothing. "+
		"If the node runs, remove the taint. If it is shut down, set the taint with another value: "+
		"kubectl --context=CONTEXT taint --overwrite nodes %s %s=after-restore:NoExecute",
		facts.AtMost(nodes, facts.NamesShown), nodes[0], corev1.TaintNodeOutOfService)
}

// machinesNote names the nodes whose fresh report is not certainly of the machine of the Node object.
func (j *Judgement) machinesNote() string {
	var nodes []string
	for _, r := range j.facts.Reports() {
		if r.IsFresh(j.facts.Now()) && !j.facts.IsOfItsNode(r) {
			nodes = append(nodes, r.Name)
		}
	}
	switch {
	case len(nodes) == 0, !j.facts.HasNodes(): // which is a note of its own
		return ""
	}
	return fmt.Sprintf("the reports of %s may be of another machine than the Node object, so they do not prove that a "+
		"sandbox is absent. See the log of the agent there; it must be allowed to get its Node",
		facts.AtMost(nodes, facts.NamesShown))
}

// setupTime is longer than a runtime takes to list a sandbox that it sets up: containerd 5 min, CRI-O 12 min.
const setupTime = 15 * time.Minute

// attachmentsNote names the sandboxes that only CNI caches have, for longer than a setup takes, and whose networks may
// exist for all that is known. They hold the addresses that they may have until something shows their end.
func (j *Judgement) attachmentsNote() string {
	f := j.facts
	var unknown []*facts.Mention
	for _, r := range f.Reports() {
		for i := range r.Attachments {
			a := &r.Attachments[i]
			if a.NetworkClosed == nil && f.Now().Sub(a.Since.Time) >= setupTime && !f.HasEndedWithNode(r) && !f.IsObsolete(r) {
				unknown = append(unknown, facts.NewAttachment(r, a))
			}
		}
	}
	if len(unknown) == 0 {
		return ""
	}
	isRecorded := map[string]bool{}
	for _, p := range f.Pools() {
		for i := range p.Allocations {
			isRecorded[p.Allocations[i].ContainerID] = true
		}
	}
	var names []string
	for _, g := range unknown {
		if len(g.Addresses) > 0 || isRecorded[g.ID] {
			of := ""
			if g.Name != "" {
				of = " of " + g.Pod()
			}
			names = append(names, fmt.Sprintf("of sandbox %s%s on node %s", g.ID, of, g.Report.Name))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("addresses are held because it is unknown whether network namespaces exist: %s. The runtime does "+
		"not list these sandboxes, and CNI cache files there have their IDs in their names. To end the hold, let the agent "+
		"see the folder of namespaces (--netns-dir), reboot the node, or, if the sandbox does not run, remove its files",
		facts.AtMost(names, facts.NamesShown))
}

// unreadNote names the sandboxes and running pods whose addresses are unknown, so that nothing can be found on them.
func (j *Judgement) unreadNote() string {
	f := j.facts
	var names []string
	for _, r := range f.Reports() {
		for g := range r.Unread() {
			if f.MayHoldAddress(g) && !f.IsObsolete(r) {
				names = append(names, fmt.Sprintf("sandbox %s of %s on node %s", g.ID, g.Pod(), r.Name))
			}
		}
	}
	for _, p := range f.Base().Pods {
		if p.MayCarryAny() || f.IsUnread(p) && len(p.Networks()) > 0 {
			names = append(names, "pod "+p.String())
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return fmt.Sprintf("no report and no readable network-status has all addresses of %s: findings on them may "+
		"be missed", facts.AtMost(slices.Compact(names), facts.NamesShown))
}

// SelectionProblem is what is wrong with --agent-nodes: it selects no node, or not all that run pods with addresses of
// pools. It is "" without agents and if nothing is wrong. isUseless is set if no node is selected.
func (j *Judgement) SelectionProblem() (problem string, isUseless bool) {
	switch f := j.facts; {
	case !f.HasAgents() || !f.HasNodes():
		return "", false
	case !f.SelectsNodes():
		return fmt.Sprintf("%s, so it is not known which nodes must report. The nodes have the labels %s", f.NodesUnknown(),
			facts.AtMost(labelsOf(f.Nodes()), facts.NamesShown)), true
	}
	nodes := j.unselected()
	if len(nodes) == 0 {
		return "", false
	}
	return fmt.Sprintf("--agent-nodes does not select %s, and pods with addresses of pools are bound there. These nodes "+
		"need not report whether a sandbox runs", facts.AtMost(nodes, facts.NamesShown)), false
}

// unselected are the nodes, sorted, that need not report although pods with allocations are bound to them.
func (j *Judgement) unselected() []string {
	f, nodes := j.facts, map[string]bool{}
	for _, p := range f.Pools() {
		for i := range p.Allocations {
			owner := p.Allocations[i].Owner
			if pod := f.Pod(owner.Namespace, owner.Name); pod != nil && pod.Phase != podstate.Finished {
				nodes[pod.Node] = true
			}
		}
	}
	for _, name := range f.AgentNodes() {
		delete(nodes, name)
	}
	maps.DeleteFunc(nodes, func(name string, _ bool) bool { return f.Node(name) == nil || f.IsDead(name) })
	return slices.Sorted(maps.Keys(nodes))
}

// labelsOf are the labels of nodes, as key=value, those of most nodes first. It omits labels that only
// one of several nodes has.
func labelsOf(nodes map[string]*podstate.Node) []string {
	count := map[string]int{}
	for _, n := range nodes {
		for key, value := range n.Labels {
			count[key+"="+value]++
		}
	}
	maps.DeleteFunc(count, func(_ string, n int) bool { return n == 1 && len(nodes) > 1 })
	return slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
}

// MinForeign is from how many allocations of unknown pods another cluster is suspected.
const MinForeign = 20

func (j *Judgement) unknownPods() (n int) {
	for _, it := range j.Allocations {
		if it.Verdict == Stale && it.Reason == PodGone && !it.Proven && it.PodByOwnerName() == nil {
			n++
		}
	}
	return n
}

// Notes has a sentence for each thing that limits the judgement.
func (j *Judgement) Notes() []string {
	var notes []string
	if j.WithoutAgents {
		edited := ""
		if j.facts.Policy().TrustNetworkStatus {
			edited = ", and an address that a user removed from a pod's network-status,"
		}
		notes = append(notes, "no node agent reports: releases rest on the API alone. "+
			"A phantom pod on a Ready node"+edited+" would be judged as a leak")
	}
	if n := j.unknownPods(); n >= MinForeign && 4*n >= j.Total {
		notes = append(notes, fmt.Sprintf("%d of %d allocations belong to pods that this cluster does not have, and "+
			"no node reports their sandboxes. If another cluster uses the same pools, stop this reconciler: "+
			"it would release that cluster's addresses. Sharing pools is not supported", n, j.Total))
	}
	if note := j.taintsNote(); note != "" {
		notes = append(notes, note)
	}
	if note := j.machinesNote(); note != "" {
		notes = append(notes, note)
	}
	if note := j.attachmentsNote(); note != "" {
		notes = append(notes, note)
	}
	if note := j.unreadNote(); note != "" {
		notes = append(notes, note)
	}
	if problem, _ := j.SelectionProblem(); problem != "" {
		notes = append(notes, problem)
	}
	for _, s := range j.Observation.UnknownSources() {
		notes = append(notes, s.Unknown+"; "+s.Costs)
	}
	return append(notes, j.Observation.Warnings...)
}
