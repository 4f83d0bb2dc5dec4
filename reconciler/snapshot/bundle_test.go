package snapshot_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

var labels = []string{"kubernetes.io/os", "kubernetes.io/hostname"}

// renamed renames as sysdump does, readably.
func renamed(kind, name string) string {
	if kind == "namespace" && name == "kube-system" {
		return name
	}
	return kind + "-" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return 'a' + ('z' - r)
		}
		return r
	}, strings.ReplaceAll(name, ".", "-"))
}

// bundleOf are the files of the bundle of an observation.
func bundleOf(t *testing.T, o *Observed, e snapshot.Encoder) map[string]string {
	t.Helper()
	files := map[string]string{}
	m, err := e.Encode(o.Observation, func(resource string) snapshot.List {
		return listOf(t, o, resource)
	}, func(name string, text []byte) { files["sysdump/"+name] = string(text) })
	check(t, err)
	text, err := json.MarshalIndent(struct {
		APIVersion string    `json:"apiVersion"`
		Kind       string    `json:"kind"`
		ObservedAt time.Time `json:"observedAt"`
		snapshot.Manifest
	}{"output.ip-reconcile.dev/v1", "Sysdump", o.Now, m}, "", " ")
	check(t, err)
	files["sysdump/manifest.json"] = string(text)
	return files
}

// listOf is the LIST of a resource as sysdump copies it.
func listOf(t *testing.T, o *Observed, resource string) snapshot.List {
	t.Helper()
	l := snapshot.List{ResourceVersion: "1", Objects: o.Stored(resource)}
	if resource == "ippools" && o.Revision > 0 {
		l.ResourceVersion = fmt.Sprint(o.Revision)
	}
	for i, object := range l.Objects {
		reduced, err := snapshot.Reduce(resource, object)
		check(t, err)
		l.Objects[i] = reduced
	}
	return l
}

// bundled is an observation after it was a bundle, and the text of the bundle.
func bundled(t *testing.T, o *Observed, e snapshot.Encoder) (*facts.Observation, string) {
	t.Helper()
	archive := tarOf(t, bundleOf(t, o, e))
	s, err := snapshot.OpenStream("bundle", strings.NewReader(archive), time.Time{}, home)
	if err != nil {
		t.Fatalf("open: %v\n%s", err, archive)
	}
	return observe(t, s), archive
}

// asListed gives the objects of an observation the order of an API server.
func asListed(o *Observed) *Observed {
	slices.SortFunc(o.Pools, func(a, b *ippool.Pool) int { return strings.Compare(a.Ref(), b.Ref()) })
	slices.SortFunc(o.Reservations.Or(nil), func(a, b *ippool.Reservation) int {
		return strings.Compare(a.Ref(), b.Ref())
	})
	slices.SortFunc(o.Guests.Or(nil), func(a, b *podstate.Guest) int { return strings.Compare(a.String(), b.String()) })
	return o
}

// said is all that a judgement says, by line.
func said(j *findings.Assessment) (all []string) {
	for _, it := range slices.Concat(j.Allocations, j.Reservations) {
		all = append(all, fmt.Sprintf("%s %s %q %s %+v: %s", it.Object(), it.Text(), it.Key(), it.RuleID(), it.ID(),
			it.Message()))
	}
	for _, f := range j.Findings {
		f.Repair = nil
		all = append(all, fmt.Sprintf("%+v", f))
	}
	return append(all, fmt.Sprintf("%+v %v", j.Summary(), j.Notes()))
}

// saidWithoutNames is what a judgement says without the names of pods, namespaces and nodes, in no order.
func saidWithoutNames(j *findings.Assessment) (all []string) {
	for _, it := range slices.Concat(j.Allocations, j.Reservations) {
		all = append(all, fmt.Sprintf("%s %q %s %s %v", it.Text(), it.Key(), it.ContainerID(), it.RuleID(), it.Proven))
	}
	for _, f := range j.Findings {
		all = append(all, fmt.Sprintf("%s %s %v", f.Kind, f.IP, f.ContainerIDs))
	}
	slices.Sort(all)
	return append(all, fmt.Sprintf("%+v", j.Summary()))
}

func same(t tester, seed uint64, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("seed %d:\ngot  %s\nwant %s", seed, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

func TestEncode_JudgedAsTheCluster(t *testing.T) {
	for seed := range Seeds(2000) {
		c := NewRandom(seed, 77)
		o := asListed(ObserveDistinct(c.Cluster()))
		o.Revision, o.Paused, o.Warnings, o.Acknowledged = 7, c.OneIn(3), []string{"a warning"}, "k3f7q2m9xa"
		if c.OneIn(5) {
			ReportsUnknown("nonsense")(o)
		}
		policy := c.Policy()
		again, _ := bundled(t, o, snapshot.Encoder{Labels: labels})
		same(t, seed, said(AssessAlone(again, policy)), said(Judged(o, policy)))
		sameObjects(t, again, o.Observation)

		again, text := bundled(t, o, snapshot.Encoder{Labels: labels, Rename: renamed})
		same(t, seed, saidWithoutNames(AssessAlone(again, policy)), saidWithoutNames(Judged(o, policy)))
		for _, pool := range []string{"worker-1-10.0.0.16-29", "worker-2-10.0.0.0-29"} { // of no known node
			text = strings.ReplaceAll(text, pool, "")
		}
		for _, name := range []string{`"web-`, "/web-", `"worker-`, `"default"`} {
			if strings.Contains(text, name) {
				t.Fatalf("seed %d: %s is in %s", seed, name, text)
			}
		}
	}
}

// sameObjects compares all fields of all objects.
func sameObjects(t tester, got, want *facts.Observation) {
	t.Helper()
	compare := func(got, want any) {
		t.Helper()
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if string(a) != string(b) {
			t.Fatalf("got  %s\nwant %s", a, b)
		}
	}
	for _, n := range want.Nodes.Or(nil) {
		if len(n.Labels) == 0 {
			n.Labels = nil // an object that is stored has no empty map
		}
	}
	compare(got.Nodes.Or(nil), want.Nodes.Or(nil))
	compare(len(got.Pods), len(want.Pods))
	for name, p := range want.Pods {
		compare(got.Pods[name], p)
	}
	for name, n := range want.NADs.Or(nil) {
		compare(got.NADs.Or(nil)[name], n)
	}
	compare(len(got.IPAMClaims.Or(nil)), len(want.IPAMClaims.Or(nil)))
	for name, c := range want.IPAMClaims.Or(nil) {
		compare(got.IPAMClaims.Or(nil)[name], c)
	}
	compare(append([]*podstate.Guest{}, got.Guests.Or(nil)...), append([]*podstate.Guest{}, want.Guests.Or(nil)...))
	// Also the fields that are not exported, and those that JSON omits.
	if len(got.Pools)+len(want.Pools) > 0 && !reflect.DeepEqual(got.Pools, want.Pools) || len(got.Reservations.Or(nil))+
		len(want.Reservations.Or(nil)) > 0 && !reflect.DeepEqual(got.Reservations, want.Reservations) {
		t.Fatalf("got  %+v\nwant %+v", got.Pools, want.Pools)
	}
	compare([]any{len(got.NADs.Or(nil)), len(got.Reports.Or(nil))},
		[]any{len(want.NADs.Or(nil)), len(want.Reports.Or(nil))})
	for i, r := range want.Reports.Or(nil) {
		again := got.Reports.Or(nil)[i]
		compare([]any{again.Name, again.UID, again.ConfirmedAt, again.LeaseRenewedAt, again.WrittenAt, again.RestoreNonce,
			again.LeaseVersion, podstate.Hash(again.SandboxReport)}, []any{r.Name, r.UID, r.ConfirmedAt, r.LeaseRenewedAt,
			r.WrittenAt, r.RestoreNonce, r.LeaseVersion, podstate.Hash(r.SandboxReport)})
	}
	rest, restAgain := *want, *got // what is no object
	rest.Static = true
	for _, o := range []*facts.Observation{&rest, &restAgain} {
		o.Unreadable, o.Warnings = append([]string{}, o.Unreadable...), append([]string{}, o.Warnings...)
	}
	compare(&restAgain, &rest)
	compare(sourcesOf(got), sourcesOf(want))
}

// sourcesOf are the revisions of sources, and why they are unknown.
func sourcesOf(o *facts.Observation) []string {
	return []string{o.Reservations.Revision() + o.Reservations.Why(), o.NADs.Revision() + o.NADs.Why(),
		o.IPAMClaims.Revision() + o.IPAMClaims.Why(), o.Guests.Revision() + o.Guests.Why(), o.Nodes.Revision() +
			o.Nodes.Why(), o.Reports.Revision() + o.Reports.Why(), o.AgentLeases.Revision() + o.AgentLeases.Why()}
}

// Objects as they are stored, with what is odd, and a planted secret wherever one can be.
func TestEncode_OddObjects(t *testing.T) {
	const secret = "hunter2"
	at := metav1.NewTime(Now.Add(-time.Hour))
	pod := func(name string, edit func(*corev1.Pod)) Part {
		return Pod(name, func(p *corev1.Pod) {
			p.Annotations["other"], p.Labels = secret, map[string]string{"a": secret}
			p.ResourceVersion = "5" + name[:1]
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: secret}}
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7d4b9c",
				Controller: ptr.To(true)}}
			edit(p)
		})
	}
	networks := func(text string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations["k8s.v1.cni.cncf.io/networks"] = text }
	}
	o := Observe(
		FreshReport("worker-1", Sandbox("box-1", UsualUID), func(r *podstate.Report) {
			r.LeaseVersion, r.RestoreNonce = "7", "k3f7q2m9xa"
			r.Annotations, r.Labels = map[string]string{"a": secret}, map[string]string{"a": secret}
			r.Sandboxes[0].NetNS = secret
		}),
		StaleReport("worker-2", WithoutMatchingLease),
		Node("worker-1", Label("secret", secret), OutOfService, fullNode), Node("worker-2", NotReadyFor(time.Minute)),
		pod("a", networks(`wb, tenant/wb@net2`)),
		pod("b", func(p *corev1.Pod) {
			networks(`[{"name":"wb","namespace":"tenant","cni-args":{"a":"` + secret + `"}}]`)(p)
			Phase("Pending")(p)
		}),
		pod("j", func(p *corev1.Pod) {
			p.Spec.NodeName, p.Status = "", corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}}
		}),
		pod("c", func(p *corev1.Pod) { p.Annotations["kubernetes.io/config.mirror"] = "uid-of-the-runtime" }),
		pod("d", NetworkStatus(`[{"name":"default/wb","interface":"net1","ips":["10.0.0.4","`+secret+`"]}, 5]`)),
		pod("e", NetworkStatus(secret)), pod("k", restoredByBackup),
		pod("f", func(p *corev1.Pod) { p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, ptr.To[int64](30) }),
		pod("g", func(p *corev1.Pod) { Phase("Succeeded")(p); StoppedByKubelet(time.Minute)(p); networks("wb")(p) }),
		pod("i", func(p *corev1.Pod) { Launcher("vmi-1", "migration-1")(p); p.Labels["a"] = secret }),
		IPAMClaim("vm.net1", "10.0.0.4"), Guest("vm", "default/wb", "10.0.0.4"),
		pod("h", func(p *corev1.Pod) {
			StoppedByKubelet(time.Minute)(p)
			ContainerWithoutStatus(p)
			PodIPs("10.0.0.9")(p)
		}),
		NAD("wb", `{"name":"wb","secret":"`+secret+`","plugins":[{"type":"macvlan","password":"`+secret+`","ipam":{
			"type":"whereabouts","range":"10.0.0.9-10.0.0.0/24","range_end":"10.0.0.99","exclude":["10.0.0.16/28"],
			"network_name":"blue","node_slice_size":"/28","enable_overlapping_ranges":false}}]}`),
		NAD("refused", `{"ipam":{"type":"whereabouts","range":"10.3.0.0/24","exclude":["none"]}}`),
		NAD("unreadable", secret), NAD("other", `{"ipam":{"type":"static"}}`),
	)
	for _, text := range []string{
		`{"metadata":{"namespace":"kube-system","name":"worker-1-10.0.0.0-28","uid":"u","resourceVersion":"8","finalizers":[
			"hunter2"],"deletionTimestamp":"2026-11-20T09:00:00Z","annotations":{
			"ip-reconcile.dev/paused":"hunter2","ip-reconcile.dev/no-usage-alerts":"hunter2","a":"hunter2"}},
			"spec":{"range":"10.0.0.0/28","allocations":{"1":{"podref":"default/a"},"2":{"id":"","podref":"a","ifname":""},
			"3":{"id":5,"podref":"default/a"},"4":{"id":"x","podref":"default/a","owner":"hunter2"},"5":"hunter2",
			"6":{"id":"x","podref":""},"7":{"id":"x","podref":"default/b_uid-9","ifname":"net1"},
			"8":{"podref":"default/i","ipamclaimref":"default/vm.net1"},"9":{"podref":"default/i","ipamclaimref":"vm.net1"},
			"x":{"podref":"default/a"}}}}`,
		`{"metadata":{"namespace":"kube-system","name":"a","resourceVersion":"9"},"spec":{"range":"hunter","allocations":5}}`,
		`{"metadata":{"namespace":"kube-system","name":"fd00---32","resourceVersion":"9"},"spec":{"range":"fd00::/32",
			"allocations":{"5":{"id":"x","podref":"default/a"}}}}`,
	} {
		o.AddPool(stored(t, text))
	}
	for _, spec := range []string{`{"podref":"default/a","ifname":"net1","containerid":"c"}`, `{"podref":"a"}`, `5`,
		`{"podref":"default/i","ipamclaimref":"default/vm.net1"}`,
		`{"podref":"default/a","owner":"hunter2"}`, `{"podref":5}`} {
		o.AddReservation(stored(t, fmt.Sprintf(`{"metadata":{"namespace":"kube-system",
			"name":"10.0.0.%d","uid":"u","resourceVersion":"4","creationTimestamp":"2026-11-20T09:00:00Z","deletionTimestamp":
			"2026-11-20T09:00:00Z","annotations":{"a":"hunter2"}},"spec":%s}`, len(o.Reservations.Or(nil)), spec)))
	}
	asListed(o).Revision = 7
	again, text := bundled(t, o, snapshot.Encoder{Labels: labels})
	delete(o.Nodes.Or(nil)["worker-1"].Labels, "secret")
	o.Reports.Or(nil)[0].Sandboxes[0].NetNS = ""
	sameObjects(t, again, o.Observation)
	everyFieldIsSet(t, "a pod", slices.Collect(maps.Values(again.Pods)), "Contradiction")
	everyFieldIsSet(t, "a Node", slices.Collect(maps.Values(again.Nodes.Or(nil))))
	everyFieldIsSet(t, "a report", again.Reports.Or(nil), "IsLocal")
	everyFieldIsSet(t, "a pool", again.Pools)
	everyFieldIsSet(t, "a reservation", again.Reservations.Or(nil))
	assessed := func(o *facts.Observation) *findings.Assessment {
		return AssessAlone(o, facts.Policy{})
	}
	same(t, 0, said(assessed(again)), said(Judged(o, facts.Policy{})))
	again, redacted := bundled(t, o, snapshot.Encoder{Labels: labels, Rename: renamed})
	same(t, 0, saidWithoutNames(assessed(again)), saidWithoutNames(Judged(o, facts.Policy{})))
	refused := types.NamespacedName{Namespace: "namespace-wvuzfog", Name: "refused"}
	if n := again.NADs.Or(nil)[refused]; n == nil || n.Networks[0].Refused == "" {
		t.Errorf("an ADD by the definition would not be refused: %+v", n)
	}
	for _, name := range []string{`"worker-`, `"default"`, "default/", "tenant", "web-7d4b9c"} {
		if !strings.Contains(text, name) || strings.Contains(redacted, name) {
			t.Errorf("%s is missing, or kept after renaming", name)
		}
	}
	if strings.Contains(text+redacted, secret) {
		t.Errorf("the bundle has the secret")
	}
}

// stored is an object by its JSON.
func stored(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	check(t, json.Unmarshal([]byte(text), &u.Object))
	return u
}

// everyFieldIsSet checks that one of the objects has a value for each exported field: a field that the encoder does not
// know would have none.
func everyFieldIsSet[T any](t *testing.T, what string, objects []*T, except ...string) {
	t.Helper()
	for i := range reflect.TypeFor[T]().NumField() {
		f := reflect.TypeFor[T]().Field(i)
		isSet := func(o *T) bool { return !reflect.ValueOf(o).Elem().Field(i).IsZero() }
		if f.IsExported() && !slices.Contains(except, f.Name) && !slices.ContainsFunc(objects, isSet) {
			t.Errorf("no bundle has the field %s of %s: encode it, and set it here", f.Name, what)
		}
	}
}

// A bundle is what was read: more than that must not be copied, and less neither.
func TestEncode_CopiesAllThatWasRead(t *testing.T) {
	o := Observe(UsualPool, UsualPod(), UsualPod(Phase("Pending")), Pod("web-1"))
	_, err := new(snapshot.Encoder).Encode(o.Observation, func(resource string) snapshot.List {
		l := listOf(t, o, resource)
		if resource == "pods" {
			l.Objects = l.Objects[1:]
		}
		return l
	}, func(string, []byte) {})
	if err == nil || !strings.Contains(err.Error(), "Pod: 2 objects were read, and 1 copied") {
		t.Error(err)
	}
}

// A source that could not be read is unknown, and so is what could not be decoded.
func TestEncode_UnknownKinds(t *testing.T) {
	o := Observe(UsualPool, UsualPod(), FreshReport("worker-1"), NodesUnknown, GuestsUnknown,
		IPAMClaimsUnread("forbidden"), LeasesOfReports)
	o.AddReports(podstate.UnreadReport("worker-2", "u", "5"))
	o.Unreadable = []string{"SandboxReport worker-2: nonsense"}
	o.AgentLeases = facts.Unknown[bool](errors.New("no Leases"))
	o.NADs = facts.Unknown[map[types.NamespacedName]*ippool.NAD](errors.New("no definitions"))
	o.Reservations = facts.Unknown[[]*ippool.Reservation](errors.New("no reservations"))
	again, _ := bundled(t, o, snapshot.Encoder{})
	same(t, 0, sourcesOf(again), sourcesOf(o.Observation))
	unread := again.Reports.Or(nil)[0]
	if unread.Name != "worker-2" || !unread.IsUnread() || !slices.Equal(again.Unreadable, o.Unreadable) {
		t.Errorf("%+v, %q", unread, again.Unreadable)
	}
}

// Sentences that may have names are not in a bundle with other names. A Forbidden names who asked.
func TestEncode_SentencesWithoutNames(t *testing.T) {
	o := Observe(UsualPool, UsualPod(), FreshReport("worker-1"))
	o.NADs = facts.Unknown[map[types.NamespacedName]*ippool.NAD](fmt.Errorf("list: %w", apierrors.NewForbidden(
		schema.GroupResource{Resource: "network-attachment-definitions"}, "", errors.New(`User "alice" cannot list`))))
	o.IPAMClaims = facts.Unknown[map[types.NamespacedName]*ippool.Claim](errors.New("dial tcp: lookup api.alice.example"))
	o.Warnings, o.Unreadable = []string{"the annotation is alice"}, []string{"Pod default/alice: nonsense"}
	o.Restored = "SandboxReport alice is at resourceVersion 5 after 7"
	again, _ := bundled(t, o, snapshot.Encoder{Rename: renamed})
	if len(again.Warnings) != 1 || len(again.Unreadable) != 1 || again.Restored == "" {
		t.Errorf("a sentence is missing: %q, %q, %q", again.Warnings, again.Unreadable, again.Restored)
	}
	if why := again.NADs.Why(); !strings.Contains(why, "Forbidden") {
		t.Errorf("the reason is missing: %s", why)
	}
	text := bundleOf(t, o, snapshot.Encoder{Rename: renamed})["sysdump/manifest.json"]
	if strings.Contains(text, "alice") {
		t.Errorf("the manifest has a name: %s", text)
	}
}
