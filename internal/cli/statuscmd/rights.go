package statuscmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// right is a right that a pass, or serve, makes use of.
type right struct {
	verbs           string // as in "get, list"
	group, resource string
	namespace, name string // "" for all
	without         string // what does not work without it
	fatal           bool   // nothing is judged, or nothing is released
}

// String is as in "get, list pods in kube-system".
func (r right) String() string {
	if r.namespace != "" {
		return r.verbs + " " + r.resource + " in " + r.namespace
	}
	return r.verbs + " " + r.resource
}

const (
	whereabouts  = "whereabouts.cni.cncf.io"
	reservations = "overlappingrangeipreservations"
	ownGroup     = "ip-reconcile.dev"
	coordination = "coordination.k8s.io"

	noJudging  = "nothing is judged"
	noReleases = "nothing is released"
	lateFreed  = "what is proven stale is freed late"
)

// rightsOfRun are those of deploy/base/rbac.yaml and deploy/leases. Of the Leases that ADD and DEL take, by
// namespace, the first stands for all.
func rightsOfRun(namespace, leaseNamespace string, leases map[string][]string, agents bool) []right {
	all := []right{
		{"list", whereabouts, "ippools", "", "", noJudging, true},
		{"get, patch", whereabouts, "ippools", "", "", noReleases, true},
		{"create", whereabouts, "ippools", "", "", "what runs with addresses of a pool that is not there is not recorded", false},
		{"list", whereabouts, reservations, "", "", noJudging, true},
		{"get, create, delete", whereabouts, reservations, "", "", "no address with a reservation is released", true},
		{"list", "", "pods", "", "", noJudging, true},
		{"list", "", "nodes", "", "", "no node counts as dead or missing", false},
		{"list", "k8s.cni.cncf.io", "network-attachment-definitions", "", "", "networks cannot be told apart", false},
		{"get", "", "namespaces", namespace, namespace, "the annotation that pauses everything is not seen", false},
	}
	if agents {
		all = append(all,
			right{"list", ownGroup, "sandboxreports", "", "", "what only the agents' reports prove is held", true},
			right{"list", coordination, "leases", leaseNamespace, "", "no agent's report counts as fresh", true})
	}
	const hold = "get, create, update"
	for _, at := range slices.Sorted(maps.Keys(leases)) {
		all = append(all, right{hold, coordination, "leases", at, leases[at][0], noReleases, true})
	}
	if leases[namespace] == nil {
		const without = "no replica leads, and the breaker forgets at a restart"
		all = append(all, right{hold, coordination, "leases", namespace, kube.OwnLease, without, false})
	}
	return all
}

// rightsOfServe are those of deploy/deployment/rbac.yaml that are beyond rightsOfRun.
func rightsOfServe(agents bool) []right {
	all := []right{
		{"watch", whereabouts, "ippools", "", "", lateFreed, false},
		{"watch", whereabouts, reservations, "", "", lateFreed, false},
		{"watch", "", "pods", "", "", lateFreed, false},
		{"create, patch", "", "events", "", "", "no events are written", false},
	}
	if agents {
		all = append(all, right{"watch", ownGroup, "sandboxreports", "", "", lateFreed, false})
	}
	return all
}

// missingRights are the wanted rights with the verbs that somebody lacks. may reports whether somebody has a right.
func missingRights(ctx context.Context, may func(context.Context, authorizationv1.ResourceAttributes) (bool, error), wanted []right) ([]right, error) {
	missing := slices.Clone(wanted)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for i, w := range wanted {
		g.Go(func() error {
			var lacking []string
			for verb := range strings.SplitSeq(w.verbs, ", ") {
				has, err := may(ctx, authorizationv1.ResourceAttributes{Verb: verb, Group: w.group, Resource: w.resource, Namespace: w.namespace, Name: w.name})
				if err != nil {
					return err
				}
				if !has {
					lacking = append(lacking, verb)
				}
			}
			missing[i].verbs = strings.Join(lacking, ", ")
			return nil
		})
	}
	err := g.Wait()
	return slices.DeleteFunc(missing, func(r right) bool { return r.verbs == "" }), err
}

func sayAccountRights(f *facts, l *lines) {
	account := f.own().account()
	next := "kubectl auth can-i --list --as=system:serviceaccount:" + account
	if account == "kube-system:"+kube.Product { // the names of deploy
		next = "kubectl apply -f deploy/base/rbac.yaml -f deploy/deployment/rbac.yaml"
	}
	sayRights(l, f.accountRights, "ServiceAccount "+strings.Replace(account, ":", "/", 1), next, l.fail)
}

func sayOwnRights(f *facts, l *lines) {
	sayRights(l, f.ownRights, "This user", "kubectl auth can-i --list", l.warn)
}

// sayRights says by what does not work without them which rights somebody lacks. Where nothing is judged or released
// without one of them it says so by lacking.
func sayRights(l *lines, rights answer[[]right], who, next string, lacking func(next, format string, args ...any)) {
	if !known(l, rights, who+": the rights are") {
		return
	}
	if len(rights.value) == 0 {
		l.ok("%s has all rights that run needs.", who)
		return
	}
	var parts []string
	say, same := l.warn, map[string][]string{}
	for _, r := range rights.value {
		same[r.without] = append(same[r.without], r.String())
	}
	for _, r := range rights.value {
		if r.fatal {
			say = lacking
		}
		if all := same[r.without]; all != nil {
			parts = append(parts, fmt.Sprintf("%s (%s)", strings.Join(all, "; "), r.without))
			delete(same, r.without)
		}
	}
	say(next, "%s may not %s.", who, strings.Join(parts, "; "))
}
