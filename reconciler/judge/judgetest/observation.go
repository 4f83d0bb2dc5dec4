package judgetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// The usual scene: pool kube-system/10.0.0.0-24 has under key "5" the entry of
// default/web-0, interface net1, sandbox box-1. The pod has uid-1 and is on
// worker-1, and so was the sandbox.

var Now = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// Observed is an observation, with what earlier ones taught.
type Observed struct {
	*judge.Observation
	Past judge.Past // nil for nothing
}

// Copy is a shallow copy.
func (o *Observed) Copy() *Observed {
	own := *o.Observation
	return &Observed{&own, o.Past}
}

// Judged judges what is observed.
func Judged(o *Observed, policy judge.Policy) *judge.Judgement {
	return judge.Judge(o.Observation, o.Past, policy)
}

// Part puts something into an observation.
type Part func(*Observed)

func Observe(parts ...Part) *Observed {
	o := &Observed{Observation: &judge.Observation{
		Now: Now, NADs: map[types.NamespacedName]*ippool.NAD{},
		Pods: map[types.NamespacedName]*podstate.Pod{}, Nodes: map[string]*podstate.Node{},
	}}
	for _, p := range parts {
		p(o)
	}
	return o
}

func All(parts ...Part) Part {
	return func(o *Observed) {
		for _, p := range parts {
			p(o)
		}
	}
}

func Nothing(*Observed) {}

func At(t time.Time) Part { return func(o *Observed) { o.Now = t } }

// --- pools, reservations, definitions

// Allocation is an entry of a pool.
type Allocation struct{ Key, PodRef, ID, IfName string }

func Alloc(key, podRef, id, ifName string) Allocation {
	return Allocation{key, podRef, id, ifName}
}

var UsualAllocation = Alloc("5", "default/web-0", "box-1", "net1")

func UsualPool(o *Observed) { Pool("10.0.0.0-24", "10.0.0.0/24", UsualAllocation)(o) }

func Pool(name, cidr string, allocs ...Allocation) Part {
	entries := map[string]any{}
	for _, a := range allocs {
		entries[a.Key] = map[string]any{"id": a.ID, "podref": a.PodRef, "ifname": a.IfName}
	}
	return RawPool(name, map[string]any{"range": cidr, "allocations": entries})
}

func RawPool(name string, spec map[string]any) Part {
	return func(o *Observed) {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool", "spec": spec}}
		u.SetNamespace("kube-system")
		u.SetName(name)
		u.SetResourceVersion("7")
		o.Pools = append(o.Pools, ippool.ReadPool(u))
	}
}

const LongAgo = time.Hour // an ADD or DEL is long over

func Reservation(name, podRef string, age time.Duration) Part {
	return RawReservation(name, age, map[string]any{"podref": podRef, "ifname": "net1"})
}

func RawReservation(name string, age time.Duration, spec map[string]any) Part {
	return func(o *Observed) {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		u.SetNamespace("kube-system")
		u.SetName(name)
		u.SetUID(types.UID("uid of " + name))
		u.SetCreationTimestamp(metav1.NewTime(o.Now.Add(-age)))
		o.Reservations = append(o.Reservations, ippool.ReadReservation(u))
	}
}

// NAD is default/<name> with the given CNI config.
func NAD(name, config string) Part {
	return func(o *Observed) {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"config": config}}}
		u.SetNamespace("default")
		u.SetName(name)
		o.NADs[types.NamespacedName{Namespace: "default", Name: name}] = ippool.ReadNAD(u)
	}
}

// WhereaboutsConfig is the config of a macvlan network with whereabouts as its IPAM.
func WhereaboutsConfig(cidr, networkName string, more ...string) string {
	return fmt.Sprintf(`{"cniVersion":"0.3.1","name":"wb","type":"macvlan","ipam":{"type":"whereabouts","range":%q,"network_name":%q%s}}`,
		cidr, networkName, strings.Join(append([]string{""}, more...), ","))
}

// --- pods

type PodEdit func(*corev1.Pod)

// Pod is default/<name>: Running for an hour, with a readable network-status
// that has the default network's address and no other.
func Pod(name string, edits ...PodEdit) Part {
	return func(o *Observed) {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "uid-1", CreationTimestamp: metav1.NewTime(Now.Add(-time.Hour))},
			Spec:       corev1.PodSpec{NodeName: "worker-1", Containers: []corev1.Container{{Name: "app"}}},
			Status: corev1.PodStatus{
				Phase:             corev1.PodRunning,
				Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
				ContainerStatuses: []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
			},
		}
		NetworkStatus(`[{"name":"cbr0","interface":"eth0","ips":["10.244.0.9"],"default":true}]`)(p)
		for _, e := range edits {
			e(p)
		}
		read := podstate.ReadPod(p)
		o.Pods[read.NamespacedName] = read
	}
}

func UsualPod(edits ...PodEdit) Part { return Pod("web-0", edits...) }

func UID(u string) PodEdit             { return func(p *corev1.Pod) { p.UID = types.UID(u) } }
func Phase(ph corev1.PodPhase) PodEdit { return func(p *corev1.Pod) { p.Status.Phase = ph } }
func OnNode(n string) PodEdit          { return func(p *corev1.Pod) { p.Spec.NodeName = n } }

func NetworkStatus(text string) PodEdit {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{"k8s.v1.cni.cncf.io/network-status": text} }
}

func NoNetworkStatus(p *corev1.Pod) { p.Annotations = nil }

// Carrying puts the address on net1, attached by default/wb.
func Carrying(ip string) PodEdit { return CarryingOn("default/wb", "net1", ip) }

func CarryingOn(network, ifName, ip string) PodEdit {
	return NetworkStatus(fmt.Sprintf(`[{"name":"cbr0","interface":"eth0","ips":["10.244.0.9"],"default":true},{"name":%q,"interface":%q,"ips":[%q]}]`, network, ifName, ip))
}

func PodIPs(ips ...string) PodEdit {
	return func(p *corev1.Pod) {
		for _, ip := range ips {
			p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
		}
	}
}

// deletedAgo: the grace period ended that long ago; negative: it is still running.
func DeletedAgo(d time.Duration) PodEdit {
	return func(p *corev1.Pod) {
		t := metav1.NewTime(Now.Add(-d))
		p.DeletionTimestamp = &t
	}
}

func GracePeriod(d time.Duration) PodEdit {
	return func(p *corev1.Pod) {
		s := int64(d.Seconds())
		p.Spec.TerminationGracePeriodSeconds = &s
	}
}

// StoppedByKubelet leaves the pod as kubelet does: containers terminated, not Ready.
func StoppedByKubelet(ago time.Duration) PodEdit {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(Now.Add(-ago))}}
	}
}

func StillReady(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}

func ContainerWithoutStatus(p *corev1.Pod) {
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "sidecar"})
}

func RunningEphemeralContainer(p *corev1.Pod) {
	p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "debug", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
}

func CreatedLongAgo(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(Now.Add(-100 * time.Hour)) }

// disrupted: the taint manager deleted the pod, which proves nothing.
func Disrupted(p *corev1.Pod) {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager"})
}

func MirrorOf(uid string) PodEdit {
	return func(p *corev1.Pod) { p.Annotations["kubernetes.io/config.mirror"] = uid }
}

// The pod of the scene has uid-1.
const UsualUID, OtherUID, NoUID = "uid-1", "uid-0", ""

// --- nodes

type NodeObject = corev1.Node

type NodeEdit func(*NodeObject)

// Node is a Ready Linux node, running boot-1.
func Node(name string, edits ...NodeEdit) Part {
	return func(o *Observed) {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/os": "linux"}}}
		n.Status.NodeInfo.BootID, n.Status.NodeInfo.SystemUUID, n.Status.NodeInfo.MachineID = "boot-1", MachineOf(name).SystemUUID, MachineOf(name).MachineID
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		for _, e := range edits {
			e(n)
		}
		o.Nodes[name] = podstate.ReadNode(n)
	}
}

func NotReadyFor(d time.Duration) NodeEdit {
	return func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(Now.Add(-d))}}
	}
}

func OutOfService(n *corev1.Node) {
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "node.kubernetes.io/out-of-service", Effect: corev1.TaintEffectNoExecute})
}

func Booted(id string) NodeEdit { return func(n *corev1.Node) { n.Status.NodeInfo.BootID = id } }

func Label(key, value string) NodeEdit { return func(n *corev1.Node) { n.Labels[key] = value } }

// noAgentRuns: --agent-nodes does not select the node.
var WithoutAgent = Label("kubernetes.io/os", "other")

// ReplacedMachine runs under the name of worker-2, and its agent was never heard: the
// last report by that name is of the machine before.
func ReplacedMachine() Part {
	return All(Node("worker-1"), Node("worker-2", Booted("boot-2"), OnMachine(v1alpha1.Machine{SystemUUID: "board of the new one", MachineID: "disk of the new one"})),
		FreshReport("worker-1"), StaleReport("worker-2", RenewedAt(Now.Add(-3*time.Hour))))
}

// --- reports

type ReportEdit func(*podstate.Report)

// FreshReport is one that its node's Lease vouches for.
func FreshReport(node string, c ...ReportEdit) Part { return ReportRenewed(node, 10*time.Second, c...) }

// StaleReport was last vouched for ten minutes ago.
func StaleReport(node string, c ...ReportEdit) Part { return ReportRenewed(node, 10*time.Minute, c...) }

func ReportRenewed(node string, ago time.Duration, c ...ReportEdit) Part {
	return func(o *Observed) {
		t := o.Now.Add(-ago)
		r := &podstate.Report{
			SandboxReport: &v1alpha1.SandboxReport{ObjectMeta: metav1.ObjectMeta{Name: node}, BootID: "boot-1", Machine: MachineOf(node), ObservedAt: metav1.NewTime(t)},
			Renewed:       t, LeaseRenewed: t, Written: t,
		}
		for _, f := range c {
			f(r)
		}
		o.Reports = append(o.Reports, r)
	}
}

// RenewedAt is when the agent was last heard, and vouched for this content.
func RenewedAt(t time.Time) ReportEdit {
	return func(r *podstate.Report) { r.Renewed, r.LeaseRenewed = t, t }
}

// MachineOf is the machine that runs under a node's name, unless it is said otherwise.
func MachineOf(node string) v1alpha1.Machine {
	return v1alpha1.Machine{SystemUUID: "board of " + node, MachineID: "disk of " + node}
}

// OnMachine is a Node's, and byMachine a report's, of another one.
func OnMachine(m v1alpha1.Machine) NodeEdit {
	return func(n *corev1.Node) {
		n.Status.NodeInfo.SystemUUID, n.Status.NodeInfo.MachineID = m.SystemUUID, m.MachineID
	}
}

func FromMachine(m v1alpha1.Machine) ReportEdit { return func(r *podstate.Report) { r.Machine = m } }

func FromBoot(id string) ReportEdit { return func(r *podstate.Report) { r.BootID = id } }

func ObservedAgo(d time.Duration) ReportEdit {
	return func(r *podstate.Report) { r.ObservedAt = metav1.NewTime(Now.Add(-d)) }
}

// unvouched: no Lease carries the hash of this content.
func WithoutMatchingLease(r *podstate.Report) { r.Renewed = time.Time{} }

// ReportingWorker is a Ready worker-1 with a fresh report.
func ReportingWorker(c ...ReportEdit) Part {
	return All(Node("worker-1"), FreshReport("worker-1", c...))
}

type ReportedSandbox = v1alpha1.Sandbox

type SandboxEdit func(*ReportedSandbox)

// Sandbox is a READY sandbox of default/web-0, an hour old, its network open.
func Sandbox(id, uid string, edits ...SandboxEdit) ReportEdit {
	return func(r *podstate.Report) {
		open := false
		b := v1alpha1.Sandbox{ID: id, Namespace: "default", Name: "web-0", UID: uid, State: "Ready", NetworkClosed: &open, CreatedAt: metav1.NewTime(Now.Add(-time.Hour))}
		for _, e := range edits {
			e(&b)
		}
		r.Sandboxes = append(r.Sandboxes, b)
	}
}

func OfPod(pod string) SandboxEdit { return func(b *v1alpha1.Sandbox) { b.Name = pod } }

func WithAddress(ip, networkName string) SandboxEdit {
	return func(b *v1alpha1.Sandbox) { b.Addresses = append(b.Addresses, Address(ip, networkName)) }
}

func CreatedAgo(d time.Duration) SandboxEdit {
	return func(b *v1alpha1.Sandbox) { b.CreatedAt = metav1.NewTime(Now.Add(-d)) }
}

// NotReady with what is known of the network namespace: nil for nothing.
func NotReady(closed *bool) SandboxEdit {
	return func(b *v1alpha1.Sandbox) { b.State, b.NetworkClosed = "NotReady", closed }
}

var Closed, Open = new(true), new(false)

func Address(ip, networkName string) v1alpha1.Address {
	return v1alpha1.Address{IP: ip, IfName: "net1", Network: "wb", Range: "10.0.0.0/24", NetworkName: networkName}
}

func Attachment(id, uid string, age time.Duration, closed *bool, addresses ...v1alpha1.Address) ReportEdit {
	return func(r *podstate.Report) {
		r.Attachments = append(r.Attachments, v1alpha1.Attachment{ID: id, UID: uid, Namespace: "default", Name: "web-0",
			Since: metav1.NewTime(Now.Add(-age)), NetworkClosed: closed, Addresses: addresses})
	}
}

func Gone(id, uid string) ReportEdit {
	return func(r *podstate.Report) {
		r.Gone = append(r.Gone, v1alpha1.Gone{ID: id, UID: uid, Since: metav1.NewTime(Now.Add(-time.Hour))})
	}
}

func ReportOf(o *Observed, node string) *podstate.Report {
	for _, r := range o.Reports {
		if r.Name == node {
			return r
		}
	}
	return nil
}

// goneBox: the usual entry's sandbox is gone and so is its pod, which is proof.
var UsualSandboxGone = All(UsualPool, ReportingWorker(Gone("box-1", UsualUID)))

// --- what is asserted

type Outcome struct {
	Verdict judge.Verdict
	Reason  judge.Reason
	Proven  bool
	Sandbox judge.Sandbox
}

func Want(verdict judge.Verdict, reason judge.Reason, proven bool, sandbox judge.Sandbox) Outcome {
	return Outcome{verdict, reason, proven, sandbox}
}

func (x Outcome) String() string {
	text := fmt.Sprintf("%s, %s (sandbox %s)", x.Verdict, x.Reason, x.Sandbox)
	if x.Proven {
		text += ", proven"
	}
	return text
}

func OutcomeOf(it *judge.Item) Outcome {
	x := Outcome{Verdict: it.Verdict, Reason: it.Reason, Proven: it.Proven, Sandbox: -1}
	if it.Evidence() != nil {
		x.Sandbox = it.Evidence().Sandbox
	}
	return x
}

// AllocationOf is the judged allocation with this address; it must be the only one.
func AllocationOf(t *testing.T, j *judge.Judgement, ip string) *judge.Item {
	t.Helper()
	var found *judge.Item
	for _, it := range j.Allocations {
		if it.Address().String() == ip {
			if found != nil {
				t.Fatalf("two allocations of %s: %s and %s", ip, found.Object(), it.Object())
			}
			found = it
		}
	}
	if found == nil {
		t.Fatalf("no allocation of %s", ip)
	}
	return found
}

func ReservationOf(t *testing.T, j *judge.Judgement, name string) *judge.Item {
	t.Helper()
	for _, it := range j.Reservations {
		if it.Reservation.Name == name {
			return it
		}
	}
	t.Fatalf("no reservation %s", name)
	return nil
}

func FindingsOf(kind judge.Kind, parts ...Part) []judge.Finding {
	var found []judge.Finding
	for _, f := range Judged(Observe(parts...), judge.Policy{}).Findings {
		if f.Kind == kind {
			found = append(found, f)
		}
	}
	return found
}

// Expect judges the usual allocation, 10.0.0.5.
func Expect(t *testing.T, want Outcome, parts ...Part) {
	t.Helper()
	ExpectUnder(t, judge.Policy{}, want, parts...)
}

func ExpectUnder(t *testing.T, policy judge.Policy, want Outcome, parts ...Part) {
	t.Helper()
	it := AllocationOf(t, Judged(Observe(parts...), policy), "10.0.0.5")
	if got := OutcomeOf(it); got != want {
		t.Errorf("got  %v\nwant %v\nit says: %s", got, want, it.Message())
	}
	if it.Message() == "" {
		t.Error("the verdict has no sentence: what is not released must say why")
	}
}

func PodName(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}
