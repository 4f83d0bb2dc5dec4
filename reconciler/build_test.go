package reconciler

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

var now = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// observed is an observation, with what earlier ones taught.
type observed struct {
	*judge.Observation
	past judge.Past // nil for nothing
}

// copied is a shallow copy.
func (o *observed) copied() *observed {
	own := *o.Observation
	return &observed{&own, o.past}
}

// judged judges what is observed.
func judged(o *observed, policy judge.Policy) *judge.Judgement {
	return judge.Judge(o.Observation, o.past, policy)
}

// part puts something into an observation.
type part func(*observed)

func observe(parts ...part) *observed {
	o := &observed{Observation: &judge.Observation{
		Now: now, NADs: map[types.NamespacedName]*ippool.NAD{},
		Pods: map[types.NamespacedName]*podstate.Pod{}, Nodes: map[string]*podstate.Node{},
	}}
	for _, p := range parts {
		p(o)
	}
	return o
}

func all(parts ...part) part {
	return func(o *observed) {
		for _, p := range parts {
			p(o)
		}
	}
}

func nothing(*observed) {}

func at(t time.Time) part { return func(o *observed) { o.Now = t } }

// --- pools, reservations, definitions

type alloc struct{ key, podRef, id, ifName string }

var usual = alloc{"5", "default/web-0", "box-1", "net1"}

func usualPool(o *observed) { aPool("10.0.0.0-24", "10.0.0.0/24", usual)(o) }

func aPool(name, cidr string, allocs ...alloc) part {
	entries := map[string]any{}
	for _, a := range allocs {
		entries[a.key] = map[string]any{"id": a.id, "podref": a.podRef, "ifname": a.ifName}
	}
	return rawPool(name, map[string]any{"range": cidr, "allocations": entries})
}

func rawPool(name string, spec map[string]any) part {
	return func(o *observed) {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool", "spec": spec}}
		u.SetNamespace("kube-system")
		u.SetName(name)
		u.SetResourceVersion("7")
		o.Pools = append(o.Pools, ippool.ReadPool(u))
	}
}

const old = time.Hour // an ADD or DEL is long over

func aReservation(name, podRef string, age time.Duration) part {
	return rawReservation(name, age, map[string]any{"podref": podRef, "ifname": "net1"})
}

func rawReservation(name string, age time.Duration, spec map[string]any) part {
	return func(o *observed) {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		u.SetNamespace("kube-system")
		u.SetName(name)
		u.SetUID(types.UID("uid of " + name))
		u.SetCreationTimestamp(metav1.NewTime(o.Now.Add(-age)))
		o.Reservations = append(o.Reservations, ippool.ReadReservation(u))
	}
}

// aNAD is default/<name> with the given CNI config.
func aNAD(name, config string) part {
	return func(o *observed) {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"config": config}}}
		u.SetNamespace("default")
		u.SetName(name)
		o.NADs[types.NamespacedName{Namespace: "default", Name: name}] = ippool.ReadNAD(u)
	}
}

// whereabouts is the config of a macvlan network with whereabouts as its IPAM.
func whereabouts(cidr, networkName string, more ...string) string {
	return fmt.Sprintf(`{"cniVersion":"0.3.1","name":"wb","type":"macvlan","ipam":{"type":"whereabouts","range":%q,"network_name":%q%s}}`,
		cidr, networkName, strings.Join(append([]string{""}, more...), ","))
}

// --- pods

type podEdit func(*corev1.Pod)

// aPod is default/<name>: Running for an hour, with a readable network-status
// that has the default network's address and no other.
func aPod(name string, edits ...podEdit) part {
	return func(o *observed) {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "uid-1", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
			Spec:       corev1.PodSpec{NodeName: "worker-1", Containers: []corev1.Container{{Name: "app"}}},
			Status: corev1.PodStatus{
				Phase:             corev1.PodRunning,
				Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
				ContainerStatuses: []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
			},
		}
		status(`[{"name":"cbr0","interface":"eth0","ips":["10.244.0.9"],"default":true}]`)(p)
		for _, e := range edits {
			e(p)
		}
		read := podstate.ReadPod(p)
		o.Pods[read.NamespacedName] = read
	}
}

func web(edits ...podEdit) part { return aPod("web-0", edits...) }

func uid(u string) podEdit               { return func(p *corev1.Pod) { p.UID = types.UID(u) } }
func phaseIs(ph corev1.PodPhase) podEdit { return func(p *corev1.Pod) { p.Status.Phase = ph } }
func onNode(n string) podEdit            { return func(p *corev1.Pod) { p.Spec.NodeName = n } }

func status(text string) podEdit {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{"k8s.v1.cni.cncf.io/network-status": text} }
}

func noStatusAtAll(p *corev1.Pod) { p.Annotations = nil }

// carrying puts the address on net1, attached by default/wb.
func carrying(ip string) podEdit { return attached("default/wb", "net1", ip) }

func attached(network, ifName, ip string) podEdit {
	return status(fmt.Sprintf(`[{"name":"cbr0","interface":"eth0","ips":["10.244.0.9"],"default":true},{"name":%q,"interface":%q,"ips":[%q]}]`, network, ifName, ip))
}

func podIPs(ips ...string) podEdit {
	return func(p *corev1.Pod) {
		for _, ip := range ips {
			p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
		}
	}
}

// deletedAgo: the grace period ended that long ago; negative: it is still running.
func deletedAgo(d time.Duration) podEdit {
	return func(p *corev1.Pod) {
		t := metav1.NewTime(now.Add(-d))
		p.DeletionTimestamp = &t
	}
}

func grace(d time.Duration) podEdit {
	return func(p *corev1.Pod) {
		s := int64(d.Seconds())
		p.Spec.TerminationGracePeriodSeconds = &s
	}
}

// stoppedByKubelet leaves the pod as kubelet does: containers terminated, not Ready.
func stoppedByKubelet(ago time.Duration) podEdit {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(now.Add(-ago))}}
	}
}

func readyAllTheSame(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}

func oneMoreContainer(p *corev1.Pod) {
	p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "sidecar"})
}

func ephemeralRuns(p *corev1.Pod) {
	p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "debug", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
}

func createdLongAgo(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(now.Add(-100 * time.Hour)) }

// disrupted: the taint manager deleted the pod, which proves nothing.
func disrupted(p *corev1.Pod) {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager"})
}

func mirrorOf(uid string) podEdit {
	return func(p *corev1.Pod) { p.Annotations["kubernetes.io/config.mirror"] = uid }
}

// The pod of the scene has uid-1.
const its1, others, unsaid = "uid-1", "uid-0", ""

// --- nodes

type nodeObject = corev1.Node

type nodeEdit func(*nodeObject)

// aNode is a Ready Linux node, running boot-1.
func aNode(name string, edits ...nodeEdit) part {
	return func(o *observed) {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/os": "linux"}}}
		n.Status.NodeInfo.BootID, n.Status.NodeInfo.SystemUUID, n.Status.NodeInfo.MachineID = "boot-1", machineOf(name).SystemUUID, machineOf(name).MachineID
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		for _, e := range edits {
			e(n)
		}
		o.Nodes[name] = podstate.ReadNode(n)
	}
}

func notReadyFor(d time.Duration) nodeEdit {
	return func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(now.Add(-d))}}
	}
}

func outOfService(n *corev1.Node) {
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "node.kubernetes.io/out-of-service", Effect: corev1.TaintEffectNoExecute})
}

func booted(id string) nodeEdit { return func(n *corev1.Node) { n.Status.NodeInfo.BootID = id } }

func label(key, value string) nodeEdit { return func(n *corev1.Node) { n.Labels[key] = value } }

// noAgentRuns: --agent-nodes does not select the node.
var noAgentRuns = label("kubernetes.io/os", "other")

// anotherMachine runs under the name of worker-2, and its agent was never heard: the
// last report by that name is of the machine before.
func anotherMachine() part {
	return all(aNode("worker-1"), aNode("worker-2", booted("boot-2"), onMachine(v1alpha1.Machine{SystemUUID: "board of the new one", MachineID: "disk of the new one"})),
		freshReport("worker-1"), staleReport("worker-2", heardAt(now.Add(-3*time.Hour))))
}

// --- reports

type content func(*podstate.Report)

// freshReport is one that its node's Lease vouches for.
func freshReport(node string, c ...content) part { return reportFrom(node, 10*time.Second, c...) }

// staleReport was last vouched for ten minutes ago.
func staleReport(node string, c ...content) part { return reportFrom(node, 10*time.Minute, c...) }

func reportFrom(node string, ago time.Duration, c ...content) part {
	return func(o *observed) {
		t := o.Now.Add(-ago)
		r := &podstate.Report{
			SandboxReport: &v1alpha1.SandboxReport{ObjectMeta: metav1.ObjectMeta{Name: node}, BootID: "boot-1", Machine: machineOf(node), ObservedAt: metav1.NewTime(t)},
			Renewed:       t, LeaseRenewed: t, Written: t,
		}
		for _, f := range c {
			f(r)
		}
		o.Reports = append(o.Reports, r)
	}
}

// heardAt is when the agent was last heard, and vouched for this content.
func heardAt(t time.Time) content {
	return func(r *podstate.Report) { r.Renewed, r.LeaseRenewed = t, t }
}

// machineOf is the machine that runs under a node's name, unless it is said otherwise.
func machineOf(node string) v1alpha1.Machine {
	return v1alpha1.Machine{SystemUUID: "board of " + node, MachineID: "disk of " + node}
}

// onMachine is a Node's, and byMachine a report's, of another one.
func onMachine(m v1alpha1.Machine) nodeEdit {
	return func(n *corev1.Node) {
		n.Status.NodeInfo.SystemUUID, n.Status.NodeInfo.MachineID = m.SystemUUID, m.MachineID
	}
}

func byMachine(m v1alpha1.Machine) content { return func(r *podstate.Report) { r.Machine = m } }

func bootID(id string) content { return func(r *podstate.Report) { r.BootID = id } }

func observedAgo(d time.Duration) content {
	return func(r *podstate.Report) { r.ObservedAt = metav1.NewTime(now.Add(-d)) }
}

// unvouched: no Lease carries the hash of this content.
func unvouched(r *podstate.Report) { r.Renewed = time.Time{} }

// onWorker is a Ready worker-1 with a fresh report.
func onWorker(c ...content) part { return all(aNode("worker-1"), freshReport("worker-1", c...)) }

type reportedBox = v1alpha1.Sandbox

type boxEdit func(*reportedBox)

// box is a READY sandbox of default/web-0, an hour old, its network open.
func box(id, uid string, edits ...boxEdit) content {
	return func(r *podstate.Report) {
		open := false
		b := v1alpha1.Sandbox{ID: id, Namespace: "default", Name: "web-0", UID: uid, State: "Ready", NetworkClosed: &open, CreatedAt: metav1.NewTime(now.Add(-time.Hour))}
		for _, e := range edits {
			e(&b)
		}
		r.Sandboxes = append(r.Sandboxes, b)
	}
}

func of(pod string) boxEdit { return func(b *v1alpha1.Sandbox) { b.Name = pod } }

func holding(ip, networkName string) boxEdit {
	return func(b *v1alpha1.Sandbox) { b.Addresses = append(b.Addresses, address(ip, networkName)) }
}

func createdAgo(d time.Duration) boxEdit {
	return func(b *v1alpha1.Sandbox) { b.CreatedAt = metav1.NewTime(now.Add(-d)) }
}

// notReady with what is known of the network namespace: nil for nothing.
func notReady(closed *bool) boxEdit {
	return func(b *v1alpha1.Sandbox) { b.State, b.NetworkClosed = "NotReady", closed }
}

var closed, open = new(true), new(false)

func address(ip, networkName string) v1alpha1.Address {
	return v1alpha1.Address{IP: ip, IfName: "net1", Network: "wb", Range: "10.0.0.0/24", NetworkName: networkName}
}

func attachment(id, uid string, age time.Duration, closed *bool, addresses ...v1alpha1.Address) content {
	return func(r *podstate.Report) {
		r.Attachments = append(r.Attachments, v1alpha1.Attachment{ID: id, UID: uid, Namespace: "default", Name: "web-0",
			Since: metav1.NewTime(now.Add(-age)), NetworkClosed: closed, Addresses: addresses})
	}
}

func gone(id, uid string) content {
	return func(r *podstate.Report) {
		r.Gone = append(r.Gone, v1alpha1.Gone{ID: id, UID: uid, Since: metav1.NewTime(now.Add(-time.Hour))})
	}
}

func reportOf(o *observed, node string) *podstate.Report {
	for _, r := range o.Reports {
		if r.Name == node {
			return r
		}
	}
	return nil
}

// goneBox: the usual entry's sandbox is gone and so is its pod, which is proof.
var goneBox = all(usualPool, onWorker(gone("box-1", its1)))

// --- what is asserted

type outcome struct {
	Verdict judge.Verdict
	Reason  judge.Reason
	Proven  bool
	Sandbox judge.Sandbox
}

func (x outcome) String() string {
	text := fmt.Sprintf("%s, %s (sandbox %s)", x.Verdict, x.Reason, x.Sandbox)
	if x.Proven {
		text += ", proven"
	}
	return text
}

func outcomeOf(it *judge.Item) outcome {
	x := outcome{Verdict: it.Verdict, Reason: it.Reason, Proven: it.Proven, Sandbox: -1}
	if it.Evidence() != nil {
		x.Sandbox = it.Evidence().Sandbox
	}
	return x
}

// allocation is the judged allocation with this address; it must be the only one.
func allocation(t *testing.T, j *judge.Judgement, ip string) *judge.Item {
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

func reservationIn(t *testing.T, j *judge.Judgement, name string) *judge.Item {
	t.Helper()
	for _, it := range j.Reservations {
		if it.Reservation.Name == name {
			return it
		}
	}
	t.Fatalf("no reservation %s", name)
	return nil
}

func findingsIn(kind judge.Kind, parts ...part) []judge.Finding {
	var found []judge.Finding
	for _, f := range judged(observe(parts...), judge.Policy{}).Findings {
		if f.Kind == kind {
			found = append(found, f)
		}
	}
	return found
}

// expect judges the usual allocation, 10.0.0.5.
func expect(t *testing.T, want outcome, parts ...part) {
	t.Helper()
	expectUnder(t, judge.Policy{}, want, parts...)
}

func expectUnder(t *testing.T, policy judge.Policy, want outcome, parts ...part) {
	t.Helper()
	it := allocation(t, judged(observe(parts...), policy), "10.0.0.5")
	if got := outcomeOf(it); got != want {
		t.Errorf("got  %v\nwant %v\nit says: %s", got, want, it.Message())
	}
	if it.Message() == "" {
		t.Error("the verdict has no sentence: what is not released must say why")
	}
}

func podName(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}
