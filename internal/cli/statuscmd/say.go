package statuscmd

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// say makes lines of what was read: the same facts always give the same lines.
func say(f *facts) []document.StatusLine {
	l := &lines{}
	f.sayReconciler(l)
	f.sayLeader(l)
	f.sayPasses(l)
	f.sayGates(l)
	f.sayStale(l)
	f.sayPools(l)
	f.sayFindings(l)
	f.sayAgents(l)
	f.sayVersions(l)
	f.sayDefinitions(l)
	f.sayUnreadable(l)
	f.sayRights(l)
	f.sayCompeting(l)
	f.sayWhereaboutsLease(l)
	return *l
}

// applyDefinitions is how docs/install.md has the CRD brought up to date.
const applyDefinitions = "kubectl apply --server-side --force-conflicts -f deploy/crds"

func (f *facts) sayReconciler(l *lines) {
	const id = "reconciler"
	if !f.workloads.known() {
		l.unknown(id, "Deployments, CronJobs and DaemonSets are not known: %s.", f.workloads.why())
		return
	}
	own := ownWorkload(f)
	switch {
	case own == nil && len(pick(f.workloads.value, (*workload).isReconciler)) > 0:
		l.warn(id, "kubectl get deployments,cronjobs -A -l "+nameLabel+"="+product, "The reconciler is not in namespace %s: give its own with --reconciler-namespace.", f.namespace)
	case own == nil && f.onlyIn != "":
		l.unknown(id, "The reconciler is not in namespace %s; no other may be listed: give its own with --reconciler-namespace.", f.onlyIn)
	case own == nil:
		l.warn(id, "helm install ip-reconcile deploy/helm/ip-reconcile -n "+f.namespace+" --set image.repository=example.com/ip-reconcile",
			"No Deployment or CronJob of ip-reconcile was found: nothing is freed but by hand.")
	case own.kind == "CronJob" && own.suspended:
		l.fail(id, fmt.Sprintf(`kubectl -n %s patch cronjob %s -p '{"spec":{"suspend":false}}'`, own.namespace, own.name), "%s is suspended: nothing is freed.", own.ref())
	case own.kind == "CronJob":
		l.ok(id, "%s runs at %q.", own.ref(), own.schedule)
	case own.wanted == 0:
		l.fail(id, fmt.Sprintf("kubectl -n %s scale %s --replicas=2", own.namespace, own.object()), "%s is scaled to 0 replicas: nothing is freed.", own.ref())
	case own.ready == 0:
		l.fail(id, own.pods(), "%s has none of its %s ready: nothing is freed.", own.ref(), plural(int(own.wanted), "replica"))
	case own.ready < own.wanted:
		l.warn(id, own.pods(), "%s has %d of %d replicas ready.", own.ref(), own.ready, own.wanted)
	default:
		l.ok(id, "%s has %d of %d replicas ready.", own.ref(), own.ready, own.wanted)
	}
}

func (f *facts) sayVersions(l *lines) {
	const id = "versions"
	own := ownWorkload(f)
	if own == nil {
		return
	}
	running, agent := own.version(), ""
	for _, w := range pick(f.workloads.value, (*workload).isAgent) {
		agent = w.version()
		switch order, comparable := compare(agent, running); {
		case comparable && order > 0:
			l.fail(id, setImage(own, agent),
				"The agents (%s) are newer than the reconciler (%s), which does not take their reports for fresh: nothing is freed on their nodes.", agent, running)
			return
		case comparable && order < 0:
			l.warn(id, setImage(w, running), "The agents (%s) are older than the reconciler (%s).", agent, running)
			return
		}
	}
	if order, comparable := compare(f.version, running); comparable && order != 0 {
		l.warn(id, own.pods(), "This command is version %s, the reconciler %s: they may judge differently.", f.version, running)
		return
	}
	if running == "" {
		l.unknown(id, "Versions are not known: the image %s has no tag.", own.spec.Containers[0].Image)
		return
	}
	text := "The reconciler is version " + running
	if agent != "" {
		text += ", the agents " + agent
	}
	l.ok(id, "%s, this command %s.", text, f.version)
}

func setImage(w *workload, tag string) string {
	c := w.spec.Containers[0]
	image, _, _ := strings.Cut(c.Image, "@")
	image = strings.TrimSuffix(image, ":"+w.version())
	return fmt.Sprintf("kubectl -n %s set image %s %s=%s:%s", w.namespace, w.object(), c.Name, image, tag)
}

// compare compares two versions; comparable is false where one of them is none, as "devel".
func compare(a, b string) (order int, comparable bool) {
	one, err := version.ParseGeneric(a)
	if err != nil {
		return 0, false
	}
	other, err := version.ParseGeneric(b)
	if err != nil {
		return 0, false
	}
	switch {
	case one.LessThan(other):
		return -1, true
	case other.LessThan(one):
		return 1, true
	}
	return 0, true
}

func (f *facts) sayDefinitions(l *lines) {
	good := 0
	for _, n := range neededDefinitions() {
		a := f.definitions[n.name()]
		id := "crd-" + n.resource.Resource
		reports := n.resource == v1alpha1.Resource()
		switch {
		case !a.known():
			l.unknown(id, "CustomResourceDefinition %s is not known: %s.", n.name(), a.why())
		case a.value == nil && reports:
			if f.expectsAgents() {
				l.fail(id, "kubectl apply -f deploy/crds", "CustomResourceDefinition %s is missing: no agent can report.", n.name())
			}
		case a.value == nil && n.resource == ippool.NADResource:
			l.warn(id, "kubectl get pods -A | grep multus", "CustomResourceDefinition %s, which Multus brings, is missing: there are no secondary networks.", n.name())
		case a.value == nil:
			l.fail(id, "kubectl apply -f whereabouts/doc/crds/"+n.resource.Group+"_"+n.resource.Resource+".yaml",
				"whereabouts' CustomResourceDefinition %s is missing: nothing can be judged.", n.name())
		case !a.value.serves(n.resource.Version):
			l.fail(id, "kubectl get crd "+n.name()+" -o yaml", "%s is not served as %s, which is needed (served: %s).", n.name(), n.resource.Version, strings.Join(a.value.served, ", "))
		case len(a.value.lacks(n)) > 0 && reports:
			l.fail(id, applyDefinitions, "CustomResourceDefinition %s is older than this version: it lacks %s, and agents that are newer cannot publish.", n.name(), few(a.value.lacks(n)))
		case len(a.value.lacks(n)) > 0:
			l.warn(id, "kubectl apply -f whereabouts/doc/crds", "CustomResourceDefinition %s is older than what is expected: it lacks %s.", n.name(), few(a.value.lacks(n)))
		default:
			good++
		}
	}
	if good > 0 {
		l.ok("crds", "%s are served with all fields.", plural(good, "CustomResourceDefinition"))
	}
}

func (f *facts) sayRights(l *lines) {
	account, grant := "the reconciler's ServiceAccount", ""
	if own := ownWorkload(f); own != nil {
		account, grant = fmt.Sprintf("ServiceAccount %s/%s", own.namespace, own.account()), grantTo(own)
	}
	for _, who := range []struct {
		id, name, next string
		rights         answer[[]missingRight]
	}{
		{"rights-reconciler", account, grant, f.accountRights},
		{"rights-cli", "this user", "kubectl auth can-i --list", f.ownRights},
	} {
		switch {
		case !who.rights.asked:
		case !who.rights.known():
			l.unknown(who.id, "The rights of %s are not known: %s.", who.name, who.rights.why())
		case len(who.rights.value) == 0:
			l.ok(who.id, "%s has all rights that run needs.", capital(who.name))
		default:
			f.sayMissing(l, who.id, who.next, who.name, who.rights.value)
		}
	}
}

// grantTo is what gives the reconciler its rights, or where its names are not those of
// deploy, shows them.
func grantTo(w *workload) string {
	if w.namespace == "kube-system" && w.account() == product {
		return "kubectl apply -f deploy/base/rbac.yaml -f deploy/deployment/rbac.yaml"
	}
	return fmt.Sprintf("kubectl auth can-i --list --as=system:serviceaccount:%s:%s", w.namespace, w.account())
}

// sayMissing names rights by what does not work without them.
func (f *facts) sayMissing(l *lines, id, next, name string, missing []missingRight) {
	var order []string
	lacking, fatal := map[string][]string{}, false
	for _, m := range missing {
		if lacking[m.without] == nil {
			order = append(order, m.without)
		}
		lacking[m.without] = append(lacking[m.without], m.String())
		fatal = fatal || m.fatal
	}
	var parts []string
	for _, without := range order {
		parts = append(parts, fmt.Sprintf("%s (%s)", strings.Join(lacking[without], "; "), without))
	}
	text := fmt.Sprintf("%s may not %s.", capital(name), strings.Join(parts, "; "))
	if fatal && id == "rights-reconciler" {
		l.fail(id, next, "%s", text)
		return
	}
	l.warn(id, next, "%s", text)
}

func (f *facts) sayCompeting(l *lines) {
	const id = "competing"
	if !f.workloads.known() {
		return // it was said
	}
	found := false
	for i := range f.workloads.value {
		w := &f.workloads.value[i]
		if program := w.competing(); program != "" {
			found = true
			l.fail(id, stopCompeting(w), "%s runs whereabouts' own %s, which frees addresses that are held here.", w.ref(), program)
		}
	}
	own := pick(f.workloads.value, func(w *workload) bool {
		return w.isReconciler() && !w.suspended && (w.wanted > 0 || w.kind == "CronJob")
	})
	if len(own) > 1 {
		var names []string
		for _, w := range own {
			names = append(names, w.ref())
		}
		next := "kubectl -n %s delete %s"
		extra := own[len(own)-1]
		for _, w := range own {
			if w.namespace != f.namespace {
				extra = w
			}
		}
		found = true
		l.fail(id, fmt.Sprintf(next, extra.namespace, extra.object()), "%d reconcilers of ip-reconcile are deployed, and one is meant to be: %s.", len(own), few(names))
	}
	switch {
	case found:
	case f.onlyIn != "":
		l.unknown(id, "Nothing else frees addresses in namespace %s; no other may be listed.", f.onlyIn)
	default:
		l.ok(id, "Nothing else frees addresses: no reconciler of whereabouts' own runs.")
	}
}

// stopCompeting is what docs/install.md and deploy/whereabouts say.
func stopCompeting(w *workload) string {
	switch w.kind {
	case "DaemonSet":
		return fmt.Sprintf("kubectl -n %s patch daemonset %s --type json --patch-file deploy/whereabouts/without-control-loop.yaml", w.namespace, w.name)
	case "CronJob":
		return fmt.Sprintf(`kubectl -n %s patch cronjob %s -p '{"spec":{"suspend":true}}'`, w.namespace, w.name)
	}
	return fmt.Sprintf("kubectl -n %s delete %s", w.namespace, w.object())
}

// shown is how many names a sentence has.
const shown = 5

// few are the first names of many.
func few(names []string) string {
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// ago is a duration as a person says it.
func ago(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", max(d, 0).Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0f h", d.Hours())
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
