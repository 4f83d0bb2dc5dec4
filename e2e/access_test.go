package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// upstreamRules are those of whereabouts v0.9.4's ClusterRole, as shipped.
func upstreamRules(t testing.TB) []rbacv1.PolicyRule {
	t.Helper()
	return objectIn[rbacv1.ClusterRole](t, harness.UpstreamManifest(t, "daemonset-install.yaml"), "ClusterRole").Rules
}

// without removes verbs on a resource from rules; no verbs mean all of them.
func without(rules []rbacv1.PolicyRule, resource string, verbs ...string) []rbacv1.PolicyRule {
	var rest []rbacv1.PolicyRule
	for _, r := range rules {
		r = *r.DeepCopy()
		if slices.Contains(r.Resources, resource) {
			kept := r
			kept.Resources = slices.DeleteFunc(slices.Clone(r.Resources), func(x string) bool { return x == resource })
			r.Resources = []string{resource}
			r.Verbs = slices.DeleteFunc(slices.Clone(r.Verbs), func(v string) bool {
				return len(verbs) == 0 ||
					slices.Contains(verbs, v)
			})
			if len(kept.Resources) > 0 {
				rest = append(rest, kept)
			}
		}
		if len(r.Verbs) > 0 {
			rest = append(rest, r)
		}
	}
	return rest
}

// account creates a ServiceAccount with exactly these rules and returns its kubeconfig.
func (s *stage) account(t testing.TB, name string, rules []rbacv1.PolicyRule) string {
	t.Helper()
	s.serviceAccount(t, metav1.NamespaceSystem, name)
	meta := metav1.ObjectMeta{Name: name}
	try(s.Client().RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules},
		metav1.CreateOptions{})).must(t)
	s.binds(t, name, name, rbacv1.Subject{Kind: "ServiceAccount", Namespace: metav1.NamespaceSystem, Name: name})
	kubeconfig := s.KubeconfigFor(t, metav1.NamespaceSystem, name)
	// The API server observes roles a moment after they are stored.
	mayNow(t, kubeconfig, rules[0])
	return kubeconfig
}

func (s *stage) namespace(t testing.TB, name string) {
	t.Helper()
	try(s.Client().CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{})).must(t)
}

func (s *stage) serviceAccount(t testing.TB, namespace, name string) {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	try(s.Client().CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{})).must(t)
}

// binds gives a ClusterRole to subjects.
func (s *stage) binds(t testing.TB, name, role string, subjects ...rbacv1.Subject) {
	t.Helper()
	try(s.Client().RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}, metav1.CreateOptions{})).must(t)
}

// mayNow waits until the API server grants an account the first right of a rule.
func mayNow(t testing.TB, kubeconfig string, r rbacv1.PolicyRule) {
	t.Helper()
	may(t, kubeconfig, authorizationv1.ResourceAttributes{Group: r.APIGroups[0], Resource: r.Resources[0],
		Verb: r.Verbs[0]}, true)
}

// may waits until the API server grants an account a permission, or denies it if want is false.
func may(t testing.TB, kubeconfig string, right authorizationv1.ResourceAttributes, want bool) {
	t.Helper()
	reviews := clientOf(t, kubeconfig).AuthorizationV1().SelfSubjectAccessReviews()
	eventually(t, fmt.Sprintf("the right to %s %s to be granted or not: %v", right.Verb, right.Resource, want),
		func() bool {
			return try(reviews.Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &right},
			}, metav1.CreateOptions{})).must(t).Status.Allowed == want
		})
}

// loses takes verbs on a resource from the roles of the installed reconciler, and waits until its account lacks the
// first of these rights. giveBack undoes that.
func (s *stage) loses(
	t testing.TB, kubeconfig string, r schema.GroupVersionResource, verbs ...string,
) (giveBack func()) {
	t.Helper()
	roles := s.Client().RbacV1().ClusterRoles()
	var before []*rbacv1.ClusterRole
	for _, name := range []string{reconcilerName, "ip-reconcile-serve"} {
		role := try(roles.Get(t.Context(), name, metav1.GetOptions{})).must(t)
		before = append(before, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: role.Labels},
			Rules: role.Rules, AggregationRule: role.AggregationRule})
		role.Rules = without(role.Rules, r.Resource, verbs...)
		try(roles.Update(t.Context(), role, metav1.UpdateOptions{})).must(t)
	}
	right := authorizationv1.ResourceAttributes{Group: r.Group, Resource: r.Resource, Verb: verbs[0]}
	may(t, kubeconfig, right, false)
	return func() {
		for _, role := range before {
			try(roles.Update(t.Context(), role, metav1.UpdateOptions{})).must(t)
		}
		may(t, kubeconfig, right, true)
	}
}

// configOf is the client configuration of a kubeconfig.
func configOf(t testing.TB, kubeconfig string) *rest.Config {
	t.Helper()
	return try(clientcmd.BuildConfigFromFlags("", kubeconfig)).must(t)
}

func clientOf(t testing.TB, kubeconfig string) *kubernetes.Clientset {
	t.Helper()
	return try(kubernetes.NewForConfig(configOf(t, kubeconfig))).must(t)
}

const agentName = "ip-reconcile-agent"

var (
	leasesResource   = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	nodesResource    = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	podsResource     = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	policiesResource = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1",
		Resource: "validatingadmissionpolicies"}
)

// kustomized are the objects of a kustomize folder.
func kustomized(t testing.TB, folder string) []*unstructured.Unstructured {
	t.Helper()
	built := try(krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)).must(t)
	return try(harness.Documents(string(try(built.AsYaml()).must(t)))).must(t)
}

// objectIn is the first object of a kind in a YAML file.
func objectIn[T any](t testing.TB, file, kind string) *T {
	t.Helper()
	return firstOf[T](t, try(harness.Documents(string(try(os.ReadFile(file)).must(t)))).must(t), kind)
}

// firstOf is the first of a kind among objects.
func firstOf[T any](t testing.TB, objects []*unstructured.Unstructured, kind string) *T {
	t.Helper()
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind })
	if i < 0 {
		t.Fatalf("no %s exists", kind)
	}
	return as[T](t, objects[i])
}

// A visitor makes requests to the API as one account.
type visitor struct {
	dynamic.Interface
	kubeconfig string // "" for an impersonated user
}

func newVisitor(t testing.TB, config *rest.Config, kubeconfig string) *visitor {
	t.Helper()
	config.QPS = -1
	return &visitor{try(dynamic.NewForConfig(config)).must(t), kubeconfig}
}

func (s *stage) withToken(t testing.TB, kubeconfig string) *visitor {
	t.Helper()
	return newVisitor(t, configOf(t, kubeconfig), kubeconfig)
}

// inPod is a visitor with the token of a pod. The pod is on a node unless node is "".
func (s *stage) inPod(t testing.TB, namespace, serviceAccount, node string) *visitor {
	t.Helper()
	pod := try(s.Client().CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: strings.TrimSuffix(serviceAccount+"-"+node, "-")},
		Spec: corev1.PodSpec{
			ServiceAccountName: serviceAccount, NodeName: node,
			Containers: []corev1.Container{{Name: "agent", Image: "e2e.invalid/none"}},
		},
	}, metav1.CreateOptions{})).must(t)
	return s.withToken(t, s.KubeconfigForPod(t, pod))
}

// as is a visitor that the admin impersonates.
func (s *stage) as(t testing.TB, user string, groups ...string) *visitor {
	t.Helper()
	config := s.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	return newVisitor(t, config, "")
}

// An attempt is a request; it returns what the API server said.
type attempt func(ctx context.Context, v *visitor) error

// objects creates objects of a kind by name, with fields beside their metadata.
func objects(r schema.GroupVersionResource, kind string,
	fields map[string]any) func(name string) *unstructured.Unstructured {
	return func(name string) *unstructured.Unstructured {
		u := (&unstructured.Unstructured{Object: fields}).DeepCopy()
		u.SetAPIVersion(r.GroupVersion().String())
		u.SetKind(kind)
		u.SetName(name)
		return u
	}
}

var (
	newReport = objects(sandboxReports, "SandboxReport", map[string]any{"observedAt": "2026-11-20T10:00:00Z"})
	newLease  = objects(leasesResource, "Lease", map[string]any{"spec": map[string]any{"holderIdentity": "any"}})
)

// thing is a kind of object, in a namespace or cluster-scoped.
type thing struct {
	r         schema.GroupVersionResource
	namespace string
	new       func(name string) *unstructured.Unstructured
}

func (o thing) of(v *visitor) dynamic.ResourceInterface {
	if o.namespace == "" {
		return v.Resource(o.r)
	}
	return v.Resource(o.r).Namespace(o.namespace)
}

// do is an attempt on the objects of the kind.
func (o thing) do(what func(ctx context.Context, objects dynamic.ResourceInterface) error) attempt {
	return func(ctx context.Context, v *visitor) error { return what(ctx, o.of(v)) }
}

// creates creates one object. Without a name the API server generates one from a prefix.
func (o thing) creates(name, prefix string, options metav1.CreateOptions) attempt {
	return o.do(func(ctx context.Context, objects dynamic.ResourceInterface) error {
		u := o.new(name)
		u.SetGenerateName(prefix)
		_, err := objects.Create(ctx, u, options)
		return err
	})
}

func (o thing) create(name string) attempt     { return o.creates(name, "", metav1.CreateOptions{}) }
func (o thing) generate(prefix string) attempt { return o.creates("", prefix, metav1.CreateOptions{}) }

// dryRun creates one object without storing it.
func (o thing) dryRun(name string) attempt {
	return o.creates(name, "", metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// put changes one object by PUT.
func (o thing) put(name string, change func(u *unstructured.Unstructured)) attempt {
	return o.do(func(ctx context.Context, objects dynamic.ResourceInterface) error {
		u, err := objects.Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			change(u)
			_, err = objects.Update(ctx, u, metav1.UpdateOptions{})
		}
		return err
	})
}

func (o thing) update(name string) attempt {
	return o.put(name, func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{"updated": "by PUT"}) })
}

func (o thing) patch(name string, kind types.PatchType, patch string, subresource ...string) attempt {
	return o.do(func(ctx context.Context, objects dynamic.ResourceInterface) error {
		_, err := objects.Patch(ctx, name, kind, []byte(patch), metav1.PatchOptions{}, subresource...)
		return err
	})
}

func (o thing) merge(name string) attempt {
	return o.patch(name, types.MergePatchType, `{"metadata":{"annotations":{"patched":"yes"}}}`)
}

// apply creates or changes one object by server-side apply.
func (o thing) apply(name string) attempt {
	return o.do(func(ctx context.Context, objects dynamic.ResourceInterface) error {
		_, err := objects.Apply(ctx, name, o.new(name), metav1.ApplyOptions{FieldManager: "test", Force: true})
		return err
	})
}

func (o thing) get(name string) attempt {
	return o.do(func(ctx context.Context, objects dynamic.ResourceInterface) error {
		_, err := objects.Get(ctx, name, metav1.GetOptions{})
		return err
	})
}

// list lists all objects, or one by its name, as a watch of one object begins.
func (o thing) list(names ...string) attempt {
	return o.do(func(ctx context.Context, objects dynamic.ResourceInterface) error {
		selector := ""
		for _, name := range names {
			selector = "metadata.name=" + name
		}
		_, err := objects.List(ctx, metav1.ListOptions{FieldSelector: selector})
		return err
	})
}

func (o thing) delete(name string) attempt {
	return o.do(func(ctx context.Context, objects dynamic.ResourceInterface) error {
		return objects.Delete(ctx, name, metav1.DeleteOptions{})
	})
}

func (o thing) deleteAll() attempt {
	return o.do(func(ctx context.Context, objects dynamic.ResourceInterface) error {
		return objects.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	})
}

// A trial is an attempt and the part of the answer that it must get: "" if it is allowed.
type trial struct {
	what string
	who  *visitor
	try  attempt
	says string
}

func checkTrials(t *testing.T, what string, trials []trial) {
	t.Helper()
	t.Run(what, func(t *testing.T) {
		for _, c := range trials {
			t.Run(c.what, func(t *testing.T) {
				err := c.try(t.Context(), c.who)
				switch {
				case c.says == "" && err != nil:
					t.Errorf("it was refused: %v", err)
				case c.says != "" && err == nil:
					t.Error("it was allowed")
				case c.says != "":
					contains(t, "the answer", err.Error(), c.says)
					equal(t, "whether the answer is Forbidden", apierrors.IsForbidden(err),
						!slices.Contains([]string{invalid, otherName, tooLarge, invalidLength}, c.says))
				}
			})
		}
	})
}

const (
	ofNoNode   = "its token names no node"
	onlyAgents = "only node agents write reports and the Leases that confirm them"
	tooLarge   = "a node agent may write at most"
	noRight    = "cannot" // in what RBAC answers
	// Answers of the API server that do not depend on the account.
	invalid   = "Invalid value"
	otherName = "does not match the name on the URL"
	// From the CustomResourceDefinition.
	invalidLength = "may not be more than 253 bytes"
)
