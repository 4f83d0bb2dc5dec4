package statuscmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// agentPods lists the agents' pods, on the node where it is one.
func agentPods(nodes []string) string {
	text := fmt.Sprintf("kubectl get pods -A -l %s=%s,%s=agent -o wide", nameLabel, product, componentLabel)
	if len(nodes) == 1 {
		text += " --field-selector spec.nodeName=" + nodes[0]
	}
	return text
}

// expectsAgents reports that agents are deployed, or that the reconciler requires them.
func (f *facts) expectsAgents() bool {
	own := ownWorkload(f)
	return len(pick(f.workloads.value, (*workload).isAgent)) > 0 || own != nil && own.argument("--agents") == "required"
}

func (f *facts) sayAgents(l *lines) {
	f.sayFresh(l)
	const id = "admission-policy"
	switch {
	case !f.expectsAgents():
	case !f.policy.known():
		l.unknown(id, "Whether the agents' admission policy is there is not known: %s.", f.policy.why())
	case !f.policy.value:
		l.warn(id, "kubectl apply -f deploy/agent/admission.yaml",
			"The admission policy ip-reconcile-agent or ip-reconcile-reports, or its binding, is missing or does not deny. "+
				"Without the first the agents publish nothing; with --without-admission-policy root on one node can write "+
				"another node's report. Without the second whoever may write Leases can make a silent node look alive.")
	default:
		l.ok(id, "The admission policies keep each agent to the report of its own node, and all others from writing one.")
	}
}

func (f *facts) sayFresh(l *lines) {
	const id = "agents"
	if !f.judged.known() {
		return // it was said
	}
	j := f.judged.value
	if what := f.unreadOfAgents(); what != "" {
		l.unknown(id, "Which agents have a fresh report is not known: %s.", what)
		return
	}
	var silent, dead []string
	fresh := 0
	for node, state := range j.Nodes {
		switch state {
		case judge.NodeFresh:
			fresh++
		case judge.NodeLost:
			dead = append(dead, node)
		default:
			silent = append(silent, node)
		}
	}
	slices.Sort(silent)
	slices.Sort(dead)
	switch {
	case len(j.Nodes) == 0 && f.expectsAgents():
		l.fail(id, agentPods(nil), "No node agent reports: nothing that only they can prove is freed.")
		return
	case len(j.Nodes) == 0:
		l.unknown(id, "There are no node agents: a pod that the API has lost cannot be told from a leak.")
		return
	}
	text := fmt.Sprintf("%d of %d node agents have a fresh report", fresh, fresh+len(silent))
	if len(dead) > 0 {
		text += fmt.Sprintf(" (not counted, dead or gone: %s)", few(dead))
	}
	if len(silent) == 0 {
		l.ok(id, "%s.", text)
		return
	}
	l.fail(id, agentPods(silent), "%s; nothing is freed on %s, except addresses of finished pods.", text, few(f.describe(silent)))
}

// unreadOfAgents is what this user could not read of them; "" for nothing.
func (f *facts) unreadOfAgents() string {
	o := f.judged.value.Observation
	if o.ReportsUnreadable && len(o.Reports) == 0 {
		return "their reports could not be read"
	}
	for _, m := range f.ownRights.value {
		if m.resource == "leases" && m.namespace == f.leaseNamespace && slices.Contains(strings.Split(m.verbs, ", "), "list") {
			return "no right to " + m.String()
		}
	}
	return ""
}

// describe says of each node without a fresh report what is known of its agent.
func (f *facts) describe(nodes []string) []string {
	reports := map[string]*podstate.Report{}
	for _, r := range f.judged.value.Observation.Reports {
		reports[r.Name] = r
	}
	var all []string
	for _, node := range nodes {
		r := reports[node]
		switch {
		case r == nil:
			all = append(all, node+" (has no report)")
		case r.LeaseRenewed.IsZero():
			all = append(all, node+" (has no Lease)")
		case r.Renewed.IsZero():
			all = append(all, node+" (its Lease is for another report)")
		default:
			all = append(all, fmt.Sprintf("%s (silent for %s)", node, ago(f.now.Sub(r.LeaseRenewed))))
		}
	}
	return all
}
