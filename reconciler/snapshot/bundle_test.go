package snapshot_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
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

// bundled is an observation after it was a bundle, and the text of the bundle.
func bundled(t tester, o *judge.Observation, e snapshot.Encoder) (*judge.Observation, string) {
	t.Helper()
	var text bytes.Buffer
	e.Encode(o, func(record any) {
		if err := json.NewEncoder(&text).Encode(record); err != nil {
			t.Fatalf("encode: %v", err)
		}
	})
	all := text.String()
	s, err := snapshot.OpenStream("bundle", &text, time.Time{}, home)
	if err != nil {
		t.Fatalf("open: %v\n%s", err, all)
	}
	return observe(t, s), all
}

// said is all that a judgement says, by line.
func said(j *judge.Judgement) (all []string) {
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
func saidWithoutNames(j *judge.Judgement) (all []string) {
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
		o := ObserveDistinct(c.Cluster())
		o.Paused, o.Warnings, o.Acknowledged = c.OneIn(3), []string{"a warning"}, Now
		if c.OneIn(5) {
			o.Unreadable = []string{"SandboxReport x: nonsense"}
			ReportsUnknown("nonsense")(o)
		}
		policy := c.Policy()
		again, _ := bundled(t, o.Observation, snapshot.Encoder{Labels: labels})
		same(t, seed, said(judge.Judge(again, nil, policy)), said(Judged(o, policy)))
		sameObjects(t, again, o.Observation)

		again, text := bundled(t, o.Observation, snapshot.Encoder{Labels: labels, Rename: renamed})
		same(t, seed, saidWithoutNames(judge.Judge(again, nil, policy)), saidWithoutNames(Judged(o, policy)))
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
func sameObjects(t tester, got, want *judge.Observation) {
	t.Helper()
	compare := func(got, want any) {
		t.Helper()
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if string(a) != string(b) {
			t.Fatalf("got  %s\nwant %s", a, b)
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
	if !reflect.DeepEqual(got.Pools, want.Pools) ||
		len(got.Reservations.Or(nil))+len(want.Reservations.Or(nil)) > 0 &&
			!reflect.DeepEqual(got.Reservations, want.Reservations) {
		t.Fatalf("got  %+v\nwant %+v", got.Pools, want.Pools)
	}
	compare([]any{len(got.NADs.Or(nil)), len(got.Reports.Or(nil))},
		[]any{len(want.NADs.Or(nil)), len(want.Reports.Or(nil))})
	for i, r := range want.Reports.Or(nil) {
		again := got.Reports.Or(nil)[i]
		compare([]any{again.Name, again.UID, again.ConfirmedAt, again.LeaseRenewedAt, again.WrittenAt,
			again.RestoreDetectedAt, again.RestoreNote, again.LeaseVersion, podstate.Hash(again.SandboxReport)},
			[]any{r.Name, r.UID, r.ConfirmedAt, r.LeaseRenewedAt, r.WrittenAt, r.RestoreDetectedAt, r.RestoreNote,
				r.LeaseVersion, podstate.Hash(r.SandboxReport)})
	}
	rest := *want
	rest.Static = true
	compare(got, &rest) // what is no object
}

// fullNode sets what the other edits of a Node leave out.
func fullNode(n *corev1.Node) {
	n.UID, n.ResourceVersion, n.CreationTimestamp = "u", "6", metav1.NewTime(Now.Add(-time.Hour))
	n.Status.NodeInfo.KubeletVersion = "v1.36.0"
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}
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
			r.LeaseVersion, r.RestoreDetectedAt, r.RestoreNote = "7", Now.Add(-time.Minute), "a note"
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
		pod("e", NetworkStatus(secret)),
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
		`{"metadata":{"namespace":"kube-system","name":"worker-1-10.0.0.0-28","uid":"u","resourceVersion":"8","annotations":{
			"ip-reconcile.dev/paused":"","ip-reconcile.dev/no-usage-alerts":"yes","a":"hunter2"}},
			"spec":{"range":"10.0.0.0/28","allocations":{"1":{"podref":"default/a"},"2":{"id":"","podref":"a","ifname":""},
			"3":{"id":5,"podref":"default/a"},"4":{"id":"x","podref":"default/a","owner":"hunter2"},"5":"hunter2",
			"6":{"id":"x","podref":""},"7":{"id":"x","podref":"default/b_uid-9","ifname":"net1"},
			"8":{"podref":"default/i","ipamclaimref":"default/vm.net1"},"9":{"podref":"default/i","ipamclaimref":"vm.net1"},
			"x":{"podref":"default/a"}}}}`,
		`{"metadata":{"namespace":"kube-system","name":"a","resourceVersion":"9"},"spec":{"range":"hunter","allocations":5}}`,
		`{"metadata":{"namespace":"kube-system","name":"fd00---32","resourceVersion":"9"},"spec":{"range":"fd00::/32",
			"allocations":{"5":{"id":"x","podref":"default/a"}}}}`,
	} {
		p, err := ippool.Decode[ippool.Pool]([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		o.Pools = append(o.Pools, p)
	}
	for _, spec := range []string{`{"podref":"default/a","ifname":"net1","containerid":"c"}`, `{"podref":"a"}`, `5`,
		`{"podref":"default/i","ipamclaimref":"default/vm.net1"}`,
		`{"podref":"default/a","owner":"hunter2"}`, `{"podref":5}`} {
		r, err := ippool.Decode[ippool.Reservation]([]byte(fmt.Sprintf(`{"metadata":{"namespace":"kube-system",
			"name":"10.0.0.%d","uid":"u","resourceVersion":"4","creationTimestamp":"2026-11-20T09:00:00Z","deletionTimestamp":
			"2026-11-20T09:00:00Z","annotations":{"a":"hunter2"}},"spec":%s}`, len(o.Reservations.Or(nil)), spec)))
		if err != nil {
			t.Fatal(err)
		}
		o.AddReservations(r)
	}
	again, text := bundled(t, o.Observation, snapshot.Encoder{Labels: labels})
	delete(o.Nodes.Or(nil)["worker-1"].Labels, "secret")
	o.Reports.Or(nil)[0].Sandboxes[0].NetNS = ""
	sameObjects(t, again, o.Observation)
	everyFieldIsSet(t, "a pod", slices.Collect(maps.Values(again.Pods)), "Contradiction")
	everyFieldIsSet(t, "a Node", slices.Collect(maps.Values(again.Nodes.Or(nil))))
	everyFieldIsSet(t, "a report", again.Reports.Or(nil))
	everyFieldIsSet(t, "a pool", again.Pools)
	everyFieldIsSet(t, "a reservation", again.Reservations.Or(nil))
	same(t, 0, said(judge.Judge(again, nil, judge.Policy{})), said(Judged(o, judge.Policy{})))
	again, redacted := bundled(t, o.Observation, snapshot.Encoder{Labels: labels, Rename: renamed})
	same(t, 0, saidWithoutNames(judge.Judge(again, nil, judge.Policy{})), saidWithoutNames(Judged(o, judge.Policy{})))
	refused := types.NamespacedName{Namespace: "namespace-wvuzfog", Name: "refused"}
	if n := again.NADs.Or(nil)[refused]; n == nil || n.Networks[0].Refused == "" {
		t.Errorf("an ADD by the definition would not be refused: %+v", n)
	}
	for _, name := range []string{`"worker-`, `"default"`, "tenant", "web-7d4b9c"} {
		if !strings.Contains(text, name) || strings.Contains(redacted, name) {
			t.Errorf("%s is missing, or kept after renaming", name)
		}
	}
	if strings.Contains(text+redacted, secret) {
		t.Errorf("the bundle has the secret")
	}
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

func TestOpen_RefusedBundle(t *testing.T) {
	_, text := bundled(t, Observe(UsualPool, UsualPod(), NoNodes).Observation, snapshot.Encoder{})
	lines := strings.SplitAfter(text, "\n")
	another := func(record string) string {
		return `{"apiVersion":"output.ip-reconcile.dev/v1","kind":"SysdumpRecord",` + record + "}\n" + text
	}
	for _, c := range []struct{ name, text, want string }{
		{"a record is missing", strings.Join(lines[1:], ""), "the bundle has 2 objects instead of 3"},
		{"the last record is missing", strings.Join(lines[:2], ""), "the bundle has 2 objects instead of 0"},
		{"another object", text + `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"a","name":"b"}}`,
			"the bundle has 4 objects instead of 3"},
		{"twice", text + text, "the bundle has 6 objects instead of 3"},
		{"a field of another version", another(`"pod":{"Hue":1}`), `unknown field "Hue": judge the bundle with the version`},
		{"no such phase", another(`"pod":{"Phase":5}`), "sysdump writes no such record"},
		{"a phase below zero", another(`"pod":{"Phase":-1}`), "sysdump writes no such record"},
		{"no such status", another(`"pod":{"Status":3}`), "sysdump writes no such record"},
		{"no report", another(`"report":{}`), "sysdump writes no such record"},
		{"a range without bounds", another(`"nad":{"Networks":[{"Ranges":["10.0.0.0/24"]}]}`),
			"sysdump writes no such record"},
	} {
		_, err := snapshot.OpenStream("bundle", strings.NewReader(c.text), time.Time{}, home)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
