package statuscmd

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// missingRight is a right that is not there, with what does not work without it.
type missingRight struct {
	verbs, resource, namespace string
	without                    string
	fatal                      bool // nothing is judged, or nothing is released
}

// String is as in "get, list pods in kube-system".
func (m missingRight) String() string {
	text := m.verbs + " " + m.resource
	if m.namespace != "" {
		text += " in " + m.namespace
	}
	return text
}

// wantedRight is a right that a pass, or serve, makes use of.
type wantedRight struct {
	verbs           []string
	group, resource string
	namespace, name string // "" for all
	without         string
	fatal           bool
}

// whereaboutsGroup is whereabouts' API group.
const whereaboutsGroup = "whereabouts.cni.cncf.io"

// rightsOfRun are those of deploy/base/rbac.yaml and deploy/leases. Of the Leases that ADD and DEL take, by
// namespace, the first stands for all.
func rightsOfRun(namespace, leaseNamespace string, leases map[string][]string, agents bool) []wantedRight {
	all := []wantedRight{
		{verbs: []string{"list"}, group: whereaboutsGroup, resource: "ippools", without: "nothing is judged", fatal: true},
		{verbs: []string{"get", "patch"}, group: whereaboutsGroup, resource: "ippools", without: "nothing is released", fatal: true},
		{verbs: []string{"create"}, group: whereaboutsGroup, resource: "ippools", without: "what runs with addresses of a pool that is not there is not recorded"},
		{verbs: []string{"list"}, group: whereaboutsGroup, resource: "overlappingrangeipreservations", without: "nothing is judged", fatal: true},
		{verbs: []string{"get", "create", "delete"}, group: whereaboutsGroup, resource: "overlappingrangeipreservations", without: "no address with a reservation is released", fatal: true},
		{verbs: []string{"list"}, resource: "pods", without: "nothing is judged", fatal: true},
		{verbs: []string{"list"}, resource: "nodes", without: "no node counts as dead or missing"},
		{verbs: []string{"list"}, group: "k8s.cni.cncf.io", resource: "network-attachment-definitions", without: "networks cannot be told apart"},
		{verbs: []string{"get"}, resource: "namespaces", namespace: namespace, name: namespace, without: "the annotation that pauses everything is not seen"},
	}
	if agents {
		all = append(all,
			wantedRight{verbs: []string{"list"}, group: "ip-reconcile.dev", resource: "sandboxreports", without: "what only the agents' reports prove is held", fatal: true},
			wantedRight{verbs: []string{"list"}, group: "coordination.k8s.io", resource: "leases", namespace: leaseNamespace, without: "no agent's report counts as fresh", fatal: true})
	}
	hold := wantedRight{verbs: []string{"get", "create", "update"}, group: "coordination.k8s.io", resource: "leases", without: "nothing is released", fatal: true}
	for _, hold.namespace = range slices.Sorted(maps.Keys(leases)) {
		hold.name = leases[hold.namespace][0]
		all = append(all, hold)
	}
	if leases[namespace] == nil {
		hold.namespace, hold.name, hold.without, hold.fatal = namespace, kube.OwnLease, "no replica leads, and the breaker forgets at a restart", false
		all = append(all, hold)
	}
	return all
}

// rightsOfServe are those of deploy/deployment/rbac.yaml that are beyond rightsOfRun.
func rightsOfServe(agents bool) []wantedRight {
	const late = "what is proven stale is freed late"
	all := []wantedRight{
		{verbs: []string{"watch"}, group: whereaboutsGroup, resource: "ippools", without: late},
		{verbs: []string{"watch"}, group: whereaboutsGroup, resource: "overlappingrangeipreservations", without: late},
		{verbs: []string{"watch"}, resource: "pods", without: late},
		{verbs: []string{"create", "patch"}, resource: "events", without: "no events are written"},
	}
	if agents {
		all = append(all, wantedRight{verbs: []string{"watch"}, group: "ip-reconcile.dev", resource: "sandboxreports", without: late})
	}
	return all
}

// reviewer tells whether somebody has a right.
type reviewer func(context.Context, *authorizationv1.ResourceAttributes) (bool, error)

// ownReview asks about the user that runs this.
func ownReview(core kubernetes.Interface) reviewer {
	return func(ctx context.Context, a *authorizationv1.ResourceAttributes) (bool, error) {
		r, err := core.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: a},
		}, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		return r.Status.Allowed, evaluated(r.Status)
	}
}

// accountReview asks about a ServiceAccount, with the groups that the API server gives it
// (k8s.io/apiserver, pkg/authentication/serviceaccount/util.go, and system:authenticated).
func accountReview(core kubernetes.Interface, namespace, name string) reviewer {
	return func(ctx context.Context, a *authorizationv1.ResourceAttributes) (bool, error) {
		r, err := core.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				ResourceAttributes: a, User: "system:serviceaccount:" + namespace + ":" + name,
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		return r.Status.Allowed, evaluated(r.Status)
	}
}

// evaluated is an error where an authorizer failed and so the answer is none.
func evaluated(s authorizationv1.SubjectAccessReviewStatus) error {
	if !s.Allowed && s.EvaluationError != "" {
		return fmt.Errorf("the API server could not tell: %s", s.EvaluationError)
	}
	return nil
}

// reviewsAtOnce bounds the requests of one review.
const reviewsAtOnce = 8

// missingRights are those that somebody has not, in the order of the wanted.
func missingRights(ctx context.Context, has reviewer, wanted []wantedRight) ([]missingRight, error) {
	lacking := make([][]bool, len(wanted))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(reviewsAtOnce)
	for i, w := range wanted {
		lacking[i] = make([]bool, len(w.verbs))
		for k, verb := range w.verbs {
			g.Go(func() error {
				a := &authorizationv1.ResourceAttributes{Verb: verb, Group: w.group, Resource: w.resource, Namespace: w.namespace, Name: w.name}
				if verb == "create" {
					a.Name = "" // RBAC cannot restrict it by name
				}
				allowed, err := has(ctx, a)
				lacking[i][k] = !allowed
				return err
			})
		}
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var missing []missingRight
	for i, w := range wanted {
		verbs := ""
		for k, verb := range w.verbs {
			if lacking[i][k] && verbs != "" {
				verbs += ", "
			}
			if lacking[i][k] {
				verbs += verb
			}
		}
		if verbs != "" {
			missing = append(missing, missingRight{verbs: verbs, resource: w.resource, namespace: w.namespace, without: w.without, fatal: w.fatal})
		}
	}
	return missing, nil
}
