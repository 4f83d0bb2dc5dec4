package statuscmd

import (
	"fmt"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// agentPods lists the agents' pods, on the node where it is one.
func agentPods(nodes []string) string {
	text := fmt.Sprintf("kubectl get pods -A -l %s=%s,%s=agent -o wide", kube.NameLabel, kube.Product, kube.ComponentLabel)
	if len(nodes) == 1 {
		text += " --field-selector spec.nodeName=" + nodes[0]
	}
	return text
}

func sayAgents(f *facts, l *lines) {
	if what := f.unreadOfAgents(); what != "" {
		l.unknown("Which agents have a fresh report is not known: %s.", what)
		return
	}
	var silent, dead []string
	fresh := 0
	for node, state := range f.judged.value.Nodes {
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
	text := fmt.Sprintf("%d of %d node agents have a fresh report", fresh, fresh+len(silent))
	if len(dead) > 0 {
		text += fmt.Sprintf(" (not counted, dead or gone: %s)", few(shown, dead))
	}
	switch {
	case len(f.judged.value.Nodes) == 0 && f.expectsAgents():
		l.fail(agentPods(nil), "No node agent reports: nothing that only they can prove is freed.")
	case len(f.judged.value.Nodes) == 0:
		l.unknown("There are no node agents: a pod that the API has lost cannot be told from a leak.")
	case len(silent) == 0:
		l.ok("%s.", text)
	default:
		l.fail(agentPods(silent), "%s; nothing is freed on %s, except addresses of finished pods.",
			text, few(shown, f.describe(silent)))
	}
}

// unreadOfAgents is what this user could not read of them; "" for nothing.
func (f *facts) unreadOfAgents() string {
	o := f.judged.value.Observation
	if o.ReportsUnreadable && len(o.Reports) == 0 {
		return "their reports could not be read"
	}
	for _, m := range f.ownRights.value {
		if m.resource == "leases" && m.namespace == f.leaseNamespace && m.verbs == "list" {
			return "no right to " + m.String()
		}
	}
	return ""
}

// describe says of each node without a fresh report what is known of its agent.
func (f *facts) describe(nodes []string) (all []string) {
	for _, node := range nodes {
		at := slices.IndexFunc(f.judged.value.Observation.Reports, func(r *podstate.Report) bool { return r.Name == node })
		text := "has no report"
		if at >= 0 {
			switch r := f.judged.value.Observation.Reports[at]; {
			case r.LeaseRenewed.IsZero():
				text = "has no Lease"
			case r.Renewed.IsZero():
				text = "its Lease is for another report"
			default:
				text = "silent for " + ago(f.now.Sub(r.LeaseRenewed))
			}
		}
		all = append(all, fmt.Sprintf("%s (%s)", node, text))
	}
	return all
}

func sayPolicy(f *facts, l *lines) {
	switch {
	case !f.expectsAgents() || !known(l, f.policy, "Whether the agents' admission policy is there is"):
	case !f.policy.value:
		l.warn("kubectl apply -f deploy/agent/admission.yaml",
			"The admission policy ip-reconcile-agent or ip-reconcile-reports, or its binding, is missing or does not deny. "+
				"Without the first the agents publish nothing; with --without-admission-policy root on one node can write "+
				"another node's report. Without the second whoever may write Leases can make a silent node look alive.")
	default:
		l.ok("The admission policies keep each agent to the report of its own node, and all others from writing one.")
	}
}

func sayVersions(f *facts, l *lines) {
	own := f.own()
	running, text := own.version(), "The reconciler is version "+own.version()
	for _, w := range f.agents() {
		text = fmt.Sprintf("The reconciler is version %s, the agents %s", running, w.version())
		switch compare(w.version(), running) {
		case 1:
			l.fail(own.setImage(w.version()), "The agents (%s) are newer than the reconciler (%s), "+
				"which does not take their reports for fresh: nothing is freed on their nodes.", w.version(), running)
			return
		case -1:
			l.warn(w.setImage(running), "The agents (%s) are older than the reconciler (%s).", w.version(), running)
			return
		}
	}
	switch {
	case compare(f.version, running) != 0:
		l.warn(own.pods(), "This command is version %s, the reconciler %s: they may judge differently.", f.version, running)
	case running == "":
		l.unknown("Versions are not known: the image %s has no tag.", own.Spec.Containers[0].Image)
	default:
		l.ok("%s, this command %s.", text, f.version)
	}
}
