//go:build slow

package e2e

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// A fieldFault is what other tools and people do to a cluster in which the product is installed and runs.
type fieldFault struct {
	name     string
	begin    func(t *testing.T, i *statusStage) (end func())
	says     []string // in status meanwhile
	logs     string   // meanwhile
	releases bool     // meanwhile, too
	met      func(t *testing.T, i *statusStage)
}

// TestServe_FieldFaults has a leak appear during each fault: status says what is wrong, nothing else is released, and
// the leak is released after the end.
func TestServe_FieldFaults(t *testing.T) {
	t.Parallel()
	i, v := newServedStage(t, "--cron", "@every 3s")
	i.Dispose()
	for _, f := range fieldFaults() {
		t.Run(f.name, func(t *testing.T) {
			web := i.up(t, "worker-2", "web", blue)
			i.two.writeReport(t, web.listed(v1alpha1.SandboxReady))
			v.inUse(t, 2)
			before := i.contents(t)
			end := f.begin(t, i)
			web.forceDelete(t)
			check(t, web.sandbox.Close())
			i.two.writeReport(t, web.stopped())
			if f.met != nil {
				f.met(t, i)
			}
			var out *outcome
			if !within(2*time.Minute, time.Second, func() bool {
				out = i.runStatus(t, i.Kubeconfig())
				said := unwrapped(out.stdout)
				return !slices.ContainsFunc(f.says, func(part string) bool { return !strings.Contains(said, part) })
			}) {
				t.Errorf("status does not say %q:\n%s", f.says, out.stdout)
			}
			v.said(t, f.logs)
			if f.releases {
				i.waitReleased(t, recovery, "10.1.0.0-24", "2")
			}
			end()
			t.Logf("released %s after the fault", i.waitReleased(t, recovery, "10.1.0.0-24", "2"))
			i.checkReleased(t, before, stored(web)...)
			if !within(time.Minute, time.Second, func() bool {
				out = i.runStatus(t, i.Kubeconfig())
				return out.code == 0
			}) {
				t.Errorf("status is not healthy afterwards:\n%s", out.stdout)
			}
		})
	}
}

// TestServe_LargePool has a pool that etcd can just store. Its leak is released, although no ADD can record more in it.
func TestServe_LargePool(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	one, wide := s.agent(t, "worker-1"), simple("wide", "10.6.0.0/16")
	lost, keep := s.up(t, "worker-1", "lost", wide), s.up(t, "worker-1", "keep", wide)
	starting := s.bare(t, "worker-1", strings.Repeat("x", 240)) // it is Pending, and has the other allocations
	const most, key = 1536 << 10, "/registry/whereabouts.cni.cncf.io/ippools/kube-system/10.6.0.0-16"
	pool := &unstructured.Unstructured{}
	check(t, json.Unmarshal(s.etcdGet(t, key), &pool.Object))
	entries := pool.Object["spec"].(map[string]any)["allocations"].(map[string]any)
	size := len(try(pool.MarshalJSON()).must(t))
	for n := 3; ; n++ {
		e := entry("default/"+starting.Name, fmt.Sprintf("%064x", n))
		if size += len(try(json.Marshal(map[string]any{fmt.Sprint(n): e})).must(t)) - 1; size > most-1<<10 {
			break
		}
		entries[fmt.Sprint(n)] = e
	}
	s.etcdPut(t, key, try(pool.MarshalJSON()).must(t))
	before := s.contents(t)
	_, err := s.of(harness.IPPools).Patch(t.Context(), "10.6.0.0-16", types.MergePatchType, []byte(
		`{"spec":{"allocations":{"9999":{"id":"`+strings.Repeat("y", 2<<10)+`","podref":"default/next"}}}}`),
		metav1.PatchOptions{})
	if err == nil || !strings.Contains(err.Error(), "too large") {
		t.Fatalf("the pool has room for more than %d entries and reservations: %v", len(before), err)
	}
	v := s.serve(t, s.Kubeconfig())
	one.writeReport(t, lost.listed(v1alpha1.SandboxReady), keep.listed(v1alpha1.SandboxReady))
	v.inUse(t, 2)
	lost.leak(t)
	one.writeReport(t, lost.stopped(), keep.listed(v1alpha1.SandboxReady))
	t.Logf("released %s after the leak, of %d KiB", s.waitReleased(t, recovery, "10.6.0.0-16", "1"), size>>10)
	s.checkReleased(t, before, "10.6.0.0-16 1", "reservation 10.6.0.1")
	v.repeatsNothing(t)
}

// fieldFaults are those that no other test has: TestRemoval_Rights revokes rights, and in TestServe_OnePoolHangs a
// webhook hangs.
func fieldFaults() []fieldFault {
	return []fieldFault{
		{name: "the definition of pools loses a field", says: []string{"! Pools, reservations and pods disagree: 2 Malformed",
			"none is stale"}, begin: func(t *testing.T, i *statusStage) func() {
			end := i.changedCRD(t, harness.IPPools, func(spec map[string]any) {
				version := spec["versions"].([]any)[0].(map[string]any)
				of := []string{"schema", "openAPIV3Schema", "properties", "spec", "properties", "allocations",
					"additionalProperties"}
				unstructured.RemoveNestedField(version, append(of, "properties", "podref")...)
				check(t, unstructured.SetNestedStringSlice(version, []string{"id"}, append(of, "required")...))
			})
			eventually(t, "the API server to drop the field", func() bool {
				return !strings.Contains(i.contents(t)["10.1.0.0-24 1"], "podref")
			})
			return func() {
				end()
				eventually(t, "the API server to have the field", func() bool {
					return strings.Contains(i.contents(t)["10.1.0.0-24 1"], "podref")
				})
			}
		}},
		{name: "pools are served in a new version, too", releases: true, says: []string{"0 errors, 0 warnings"},
			begin: func(t *testing.T, i *statusStage) func() {
				return i.changedCRD(t, harness.IPPools, anotherVersion(true))
			}},
		{name: "pools are served in a new version alone", says: []string{
			"✗ ippools.whereabouts.cni.cncf.io is served as v1beta1, and this version of ip-reconcile reads v1alpha1: " +
				"addresses cannot be judged.", "✗ The pass at"}, begin: func(t *testing.T, i *statusStage) func() {
			end := i.changedCRD(t, harness.IPPools, anotherVersion(false))
			served := func() bool {
				_, err := i.of(harness.IPPools).List(t.Context(), metav1.ListOptions{})
				return err == nil
			}
			eventually(t, "pools not to be served", func() bool { return !served() })
			return func() { end(); eventually(t, "pools to be served", served) }
		}},
		{name: "all Leases are deleted", says: []string{
			"✗ 0 of 2 node agents have a fresh report"}, begin: func(t *testing.T, i *statusStage) func() {
			for _, a := range []*agent{i.one, i.two} {
				a.change(func() { a.silent = true })
			}
			for _, namespace := range []string{metav1.NamespaceSystem, harness.LeaseNamespace} {
				check(t, i.Client().CoordinationV1().Leases(namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{},
					metav1.ListOptions{}))
			}
			return func() {
				for _, a := range []*agent{i.one, i.two} {
					a.change(func() { a.silent = false })
					check(t, a.renew())
				}
			}
		}},
		{name: "a webhook refuses", says: []string{"✗ The last pass", "could not release 1 stale item: writes failed"},
			begin: func(t *testing.T, i *statusStage) func() {
				return i.webhook(t, 5, updates, func(*http.Request) bool { return false })
			}},
		{name: "the API server answers 429", says: []string{"✗ The pass at", "failed (list", "too many requests"},
			logs: `level=WARN msg="A request to the API server fails again and again" request="GET /a.*429 Too`,
			met: func(t *testing.T, i *statusStage) {
				before := i.rejected(t)
				eventually(t, "requests to be refused", func() bool { return i.rejected(t) >= before+3 })
			}, begin: func(t *testing.T, i *statusStage) func() { return i.throttled(t) }},
	}
}

// updates are the patches of pools, which remove allocations.
var updates = writes(admissionregistrationv1.Update, harness.IPPools)

func writes(
	does admissionregistrationv1.OperationType, r schema.GroupVersionResource,
) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{Operations: []admissionregistrationv1.OperationType{does},
		Rule: admissionregistrationv1.Rule{APIGroups: []string{r.Group}, APIVersions: []string{"*"},
			Resources: []string{r.Resource}}}
}

// hanging is a webhook that answers when nobody waits for it anymore, or after end.
func hanging() (allows func(*http.Request) bool, end func()) {
	over := make(chan struct{})
	return func(r *http.Request) bool {
		select {
		case <-r.Context().Done():
		case <-over:
		}
		return true
	}, func() { close(over) }
}

// webhook makes the API server ask a webhook about some writes, all that match where conditions are given.
func (s *stage) webhook(
	t *testing.T, seconds int32, about admissionregistrationv1.RuleWithOperations, allows func(*http.Request) bool,
	only ...admissionregistrationv1.MatchCondition,
) (end func()) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		body, _ := io.ReadAll(r.Body)
		if json.Unmarshal(body, &review) != nil || review.Request == nil {
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: allows(r),
			Result: &metav1.Status{Message: "refused by the webhook of the test"}}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	const name = "field.e2e.invalid"
	api := s.Client().AdmissionregistrationV1().ValidatingWebhookConfigurations()
	try(api.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: name, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), TimeoutSeconds: &seconds,
			AdmissionReviewVersions: []string{"v1"}, MatchConditions: only,
			Rules: []admissionregistrationv1.RuleWithOperations{about},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &server.URL,
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
		}},
	}, metav1.CreateOptions{})).must(t)
	return func() { check(t, api.Delete(t.Context(), name, metav1.DeleteOptions{})) }
}

// throttled gives the reconciler a priority level whose few seats others occupy, by requests on which a webhook hangs.
// API priority and fairness refuses its requests, but for Leases.
func (i *statusStage) throttled(t *testing.T) (end func()) {
	t.Helper()
	const name = "e2e"
	api := i.Client().FlowcontrolV1()
	try(api.PriorityLevelConfigurations().Create(t.Context(), &flowcontrolv1.PriorityLevelConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: flowcontrolv1.PriorityLevelConfigurationSpec{Type: flowcontrolv1.PriorityLevelEnablementLimited,
			Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{NominalConcurrencyShares: ptr.To(int32(1)),
				BorrowingLimitPercent: ptr.To(int32(0)),
				LimitResponse:         flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject}}},
	}, metav1.CreateOptions{})).must(t)
	for _, account := range []string{reconcilerName, name} {
		try(api.FlowSchemas().Create(t.Context(), &flowcontrolv1.FlowSchema{
			ObjectMeta: metav1.ObjectMeta{Name: "e2e-" + account},
			Spec: flowcontrolv1.FlowSchemaSpec{MatchingPrecedence: 2,
				PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: name},
				Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
					Subjects: []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindServiceAccount,
						ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: metav1.NamespaceSystem, Name: account}}},
					ResourceRules: []flowcontrolv1.ResourcePolicyRule{{Verbs: []string{"*"}, Resources: []string{"*"},
						APIGroups: []string{"", harness.IPPools.Group}, ClusterScope: true, Namespaces: []string{"*"}}},
				}},
			},
		}, metav1.CreateOptions{})).must(t)
	}

	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	allows, release := hanging()
	remove := i.webhook(t, 30, writes(admissionregistrationv1.Create, configMaps), allows)
	hog := clientOf(t, i.account(t, name, []rbacv1.PolicyRule{{APIGroups: []string{""},
		Resources: []string{configMaps.Resource}, Verbs: []string{"create"}}})).CoreV1().ConfigMaps("default")
	ctx, cancel := context.WithCancel(t.Context())
	var hogs sync.WaitGroup
	one := clientOf(t, i.kubeconfig).CoreV1().RESTClient().Get().Resource("pods").Namespace("default").Name("none")
	refusals := 0
	eventually(t, "the reconciler to be refused", func() bool {
		// A get needs one seat. A list may need several, so it is refused while some are free. What waits beyond the
		// seats takes one that becomes free.
		if apierrors.IsTooManyRequests(one.MaxRetries(0).Do(ctx).Error()) {
			refusals++
		}
		if refusals == 3 {
			return true
		}
		hogs.Go(func() {
			for ctx.Err() == nil {
				_, _ = hog.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: name}}, metav1.CreateOptions{})
			}
		})
		return false
	})
	return func() {
		cancel()
		release()
		remove()
		hogs.Wait()
		for _, account := range []string{reconcilerName, name} {
			check(t, api.FlowSchemas().Delete(t.Context(), "e2e-"+account, metav1.DeleteOptions{}))
		}
		check(t, api.PriorityLevelConfigurations().Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
}

// rejected is how many requests of the reconciler API priority and fairness has refused.
func (i *statusStage) rejected(t *testing.T) (n float64) {
	t.Helper()
	text := string(try(i.Client().Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())).must(t))
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "apiserver_flowcontrol_rejected_requests_total{flow_schema=\"e2e-"+reconcilerName+`"`) {
			count, _ := strconv.ParseFloat(strings.Fields(line)[1], 64)
			n += count
		}
	}
	return n
}
