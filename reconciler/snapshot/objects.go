package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// groupOf is the API group of a kind that is read; ok is false for the others.
func groupOf(kind string) (group string, ok bool) {
	switch kind {
	case "IPPool", "OverlappingRangeIPReservation", "NodeSlicePool":
		return ippool.PoolResource.Group, true
	case "NetworkAttachmentDefinition":
		return ippool.NADResource.Group, true
	case "SandboxReport":
		return v1alpha1.Resource().Group, true
	case "Lease":
		return coordinationv1.GroupName, true
	case "Pod", "Node", "Namespace":
		return corev1.GroupName, true
	}
	return "", false
}

// add takes in an object. One that cannot be read is reported, and is never taken for one
// that does not exist.
func (f *Snapshot) add(o *object) {
	kind := o.kind
	if group, ok := groupOf(kind); ok && schema.FromAPIVersionAndKind(o.apiVersion, kind).Group != group {
		kind = "other" // Calico, for one, has IPPools of its own
	}
	first, duplicate := f.seenIn[o.ref()]
	if !duplicate {
		f.seenIn[o.ref()] = o.file.path
	}
	if err := f.addKind(kind, o, first); err != nil {
		f.unreadable = append(f.unreadable, fmt.Sprintf("%s: %s %s/%s: %v", o.file.path, o.kind, o.namespace, o.name, err))
		f.kept += len(f.unreadable[len(f.unreadable)-1])
	}
}

// addKind takes in an object of a kind; first is the file that has another copy of it, ""
// if none has. The error says why it cannot be read.
func (f *Snapshot) addKind(kind string, o *object, first string) error {
	switch kind {
	case "IPPool":
		if first != "" {
			return f.addPoolCopy(o, first)
		}
		return f.addPool(o)
	case "OverlappingRangeIPReservation":
		if first != "" {
			return f.addReservationCopy(o, first)
		}
		return f.addReservation(o)
	case "NetworkAttachmentDefinition":
		return f.addNAD(o, first)
	case "Namespace":
		return f.addNamespace(o, first)
	case "Pod":
		return f.addPod(o, first)
	case "Node":
		return f.addNode(o, first)
	case "Lease":
		return f.addLease(o)
	case "SandboxReport":
		return f.addReport(o, first)
	case "NodeSlicePool":
		// It names the present node of a slice, which may not be the one that
		// made the entries: the pools' names are what counts.
		return nil
	case "":
		return errors.New("no kind: not a Kubernetes object")
	}
	f.ignored++
	return nil
}

func (f *Snapshot) addNamespace(o *object, first string) error {
	ns := &metav1.PartialObjectMetadata{}
	if err := decode(o.text, ns); err != nil { // whether it pauses everything is not known
		f.namespaces[o.name] = map[string]string{ippool.PausedAnnotation: "true"}
		return err
	}
	if first != "" {
		ns.Annotations = ofBothNamespaces(f.namespaces[o.name], ns.Annotations)
	}
	f.namespaces[o.name] = ns.Annotations
	return nil
}

func (f *Snapshot) addPool(o *object) error {
	p, err := ippool.DecodePool(o.text)
	if err != nil {
		return err
	}
	p.ResourceVersion = cmp.Or(p.ResourceVersion, noVersion)
	f.keepPool(p)
	return nil
}

func (f *Snapshot) keepPool(p *ippool.Pool) {
	f.poolAt[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = len(f.pools)
	f.pools = append(f.pools, p)
}

func (f *Snapshot) addReservation(o *object) error {
	r, err := ippool.DecodeReservation(o.text)
	if err != nil {
		return err
	}
	f.reservations = append(f.reservations, r)
	f.reservationAt[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}] = r
	return nil
}

func (f *Snapshot) addNAD(o *object, first string) error {
	id := types.NamespacedName{Namespace: o.namespace, Name: o.name}
	n, err := ippool.DecodeNAD(o.text)
	if err == nil && first != "" && differs(f.nads[id], n) {
		n = &ippool.NAD{Namespace: n.Namespace, Name: n.Name, Problem: f.recordDuplicate(o, first)}
	}
	f.nads[id] = n
	return err
}

func (f *Snapshot) addPod(o *object, first string) error {
	pod := &corev1.Pod{}
	if err := decode(o.text, pod); err != nil {
		id := types.NamespacedName{Namespace: o.namespace, Name: o.name}
		f.pods[id] = &podstate.Pod{NamespacedName: id, UID: o.uid, Phase: podstate.Live, Status: podstate.StatusUnreadable}
		return err
	}
	p := podstate.ReadPod(pod)
	old := f.pods[p.NamespacedName]
	if first != "" && differs(old, p) {
		if newer := newerPod(old, p); newer != nil {
			f.pods[p.NamespacedName] = newer
			return nil
		}
		p.Disputed = f.recordDuplicate(o, first)
		p.Interfaces = bothInterfaces(old, p) // whichever it carries is not free
	}
	f.pods[p.NamespacedName] = p
	return nil
}

func (f *Snapshot) addNode(o *object, first string) error {
	node := &corev1.Node{}
	if err := decode(o.text, node); err != nil {
		head := &metav1.PartialObjectMetadata{}
		_ = decode(o.text, head) // of the labels those that can be read
		f.nodes[o.name] = &podstate.Node{Name: o.name, Labels: head.Labels}
		return err
	}
	n := podstate.ReadNode(node)
	if old := f.nodes[n.Name]; first != "" && old != nil && !sameBut(old, n, func(n *podstate.Node) { n.ResourceVersion = "" }) {
		f.recordDuplicate(o, first)
		n = &podstate.Node{Name: n.Name, Labels: n.Labels} // not Ready, and nothing is proven of it
	}
	f.nodes[node.Name] = n
	return nil
}

func (f *Snapshot) addLease(o *object) error {
	lease := &coordinationv1.Lease{}
	err := decode(o.text, lease)
	if err != nil {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: o.name}}
		lease.Spec.RenewTime = &metav1.MicroTime{} // there is one, and it makes no report fresh
	}
	f.leases = append(f.leases, lease)
	return err
}

func (f *Snapshot) addReport(o *object, first string) error {
	report := &v1alpha1.SandboxReport{}
	err := decode(o.text, report)
	if err == nil && report.Name == "" {
		err = errors.New("metadata.name is missing")
	}
	if err != nil {
		f.badReport = true
		return err
	}
	switch at, there := f.reportAt[report.Name]; {
	case !there:
		f.reportAt[report.Name] = len(f.reports)
		f.reports = append(f.reports, report)
	case differs(f.reports[at], report):
		f.recordDuplicate(o, first)
		f.disputedReports[report.Name] = true
	}
	return nil
}

// recordDuplicate reports that the folder has an object with two contents, of which neither
// is relied upon.
func (f *Snapshot) recordDuplicate(o *object, first string) string {
	text := fmt.Sprintf("%s %s/%s: %s and %s have it, and differ; leave the one that is right", o.kind, o.namespace, o.name, first, o.file.path)
	f.unreadable = append(f.unreadable, text)
	return text
}

// differs reports whether two copies of an object are not the same.
func differs[T any](a, b *T) bool { return a != nil && !reflect.DeepEqual(a, b) }

func decode(text []byte, into any) error {
	return kjson.UnmarshalCaseSensitivePreserveInts(text, into)
}
