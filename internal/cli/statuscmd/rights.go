package statuscmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

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
	text := r.verbs + " " + r.resource
	if r.namespace != "" {
		text += " in " + r.namespace
	}
	return text
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

type attributes = authorizationv1.ResourceAttributes

// review reports whether the ServiceAccount of a workload may do something; nil is the user that runs this.
func review(ctx context.Context, core kubernetes.Interface, account *workload, a *attributes) (bool, error) {
	if account == nil {
		r, err := core.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: a},
		}, metav1.CreateOptions{})
		return allowed(r.Status, err)
	}
	// The groups are those that the API server gives it (k8s.io/apiserver, pkg/authentication/serviceaccount/util.go,
	// and system:authenticated).
	r, err := core.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			ResourceAttributes: a, User: "system:serviceaccount:" + account.namespace + ":" + account.account(),
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + account.namespace, "system:authenticated"},
		},
	}, metav1.CreateOptions{})
	return allowed(r.Status, err)
}

// allowed is an error where an authorizer failed, so that its answer is none.
func allowed(s authorizationv1.SubjectAccessReviewStatus, err error) (bool, error) {
	if err == nil && !s.Allowed && s.EvaluationError != "" {
		err = fmt.Errorf("the API server could not tell: %s", s.EvaluationError)
	}
	return s.Allowed, err
}

// reviewsAtOnce bounds the requests of one review.
const reviewsAtOnce = 8

// missingRights are the wanted rights with the verbs that somebody lacks. may reports whether somebody has a right.
func missingRights(ctx context.Context, may func(context.Context, *attributes) (bool, error), wanted []right) ([]right, error) {
	missing := slices.Clone(wanted)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(reviewsAtOnce)
	for i, w := range wanted {
		g.Go(func() error {
			var lacking []string
			for verb := range strings.SplitSeq(w.verbs, ", ") {
				a := &attributes{Verb: verb, Group: w.group, Resource: w.resource, Namespace: w.namespace, Name: w.name}
				if verb == "create" {
					a.Name = "" // RBAC cannot restrict it by name
				}
				has, err := may(ctx, a)
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
