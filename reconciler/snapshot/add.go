package snapshot

import (
	"cmp"
	"errors"
	"fmt"

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
func (s *Snapshot) add(o *object) {
	kind := o.kind
	if group, ok := groupOf(kind); ok && schema.FromAPIVersionAndKind(o.apiVersion, kind).Group != group {
		kind = "other" // Calico, for one, has IPPools of its own
	}
	first, duplicate := s.seenIn[o.ref()]
	if !duplicate {
		s.seenIn[o.ref()] = o.path
	}
	if err := s.addKind(kind, o, first); err != nil {
		s.report("%s: %s %s/%s: %v", o.path, o.kind, o.namespace, o.name, err)
	}
}

// report notes what cannot be relied upon.
func (s *Snapshot) report(format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	s.unreadable = append(s.unreadable, text)
	s.kept += len(text)
	return text
}

// addKind takes in an object of a kind; first is the file that has another copy of it, ""
// if none has. The error says why it cannot be read.
func (s *Snapshot) addKind(kind string, o *object, first string) error {
	id := types.NamespacedName{Namespace: o.namespace, Name: o.name}
	switch kind {
	case "IPPool":
		return s.addPool(id, o, first)
	case "OverlappingRangeIPReservation":
		return s.addReservation(id, o, first)
	case "NetworkAttachmentDefinition":
		return s.addNAD(id, o, first)
	case "Namespace":
		return s.addNamespace(o, first)
	case "Pod":
		return s.addPod(id, o, first)
	case "Node":
		return s.addNode(o, first)
	case "Lease":
		return s.addLease(o)
	case "SandboxReport":
		return s.addReport(o, first)
	case "NodeSlicePool":
		// It names the present node of a slice, which may not be the one that
		// made the entries: the pools' names are what counts.
		return nil
	case "":
		return errors.New("no kind: not a Kubernetes object")
	}
	s.ignored++
	return nil
}

func (s *Snapshot) addNamespace(o *object, first string) error {
	ns := &metav1.PartialObjectMetadata{}
	if err := decode(o.text, ns); err != nil { // whether it pauses everything is not known
		s.namespaces[o.name] = map[string]string{ippool.PausedAnnotation: "true"}
		return err
	}
	if first != "" {
		ns.Annotations = ofBothNamespaces(s.namespaces[o.name], ns.Annotations)
	}
	s.namespaces[o.name] = ns.Annotations
	return nil
}

// addPool takes in a pool. Of two contents of one pool the later counts; where that cannot be known, the first does,
// and it is reported.
func (s *Snapshot) addPool(id types.NamespacedName, o *object, first string) error {
	p, err := ippool.DecodePool(o.text)
	if err != nil {
		return err
	}
	p.ResourceVersion = cmp.Or(p.ResourceVersion, noVersion)
	at, there := s.poolAt[id]
	if !there { // the first may not have been readable
		s.poolAt[id] = len(s.pools)
		s.pools = append(s.pools, p)
		return nil
	}
	old := s.pools[at]
	if sameBut(old, p, func(p *ippool.Pool) { p.ResourceVersion = "" }) {
		return nil
	}
	inOrder, ordered := versionsInOrder(old.ResourceVersion, p.ResourceVersion)
	switch {
	case p.UID == "" || p.UID != old.UID || !ordered:
		s.countsFirst(o, first)
	case inOrder:
		s.pools[at] = p
	}
	return nil
}

func (s *Snapshot) addReservation(id types.NamespacedName, o *object, first string) error {
	r, err := ippool.DecodeReservation(o.text)
	if err != nil {
		return err
	}
	old := s.reservationAt[id]
	if old == nil {
		s.reservationAt[id] = r
		s.reservations = append(s.reservations, r)
	} else if !sameBut(old, r, func(r *ippool.Reservation) { r.ResourceVersion = "" }) {
		s.countsFirst(o, first)
	}
	return nil
}

func (s *Snapshot) addNAD(id types.NamespacedName, o *object, first string) error {
	n, err := ippool.DecodeNAD(o.text)
	if err == nil && first != "" && differs(s.nads[id], n) {
		n = &ippool.NAD{Namespace: n.Namespace, Name: n.Name, Problem: s.reportTwo(o, first)}
	}
	s.nads[id] = n
	return err
}

func (s *Snapshot) addPod(id types.NamespacedName, o *object, first string) error {
	pod := &corev1.Pod{}
	if err := decode(o.text, pod); err != nil {
		s.pods[id] = &podstate.Pod{NamespacedName: id, UID: o.uid, Phase: podstate.Live, Status: podstate.StatusUnreadable}
		return err
	}
	p := podstate.ReadPod(pod)
	if old := s.pods[id]; first != "" && differs(old, p) {
		if newer := newerPod(old, p); newer != nil {
			p = newer
		} else {
			p.Disputed = s.reportTwo(o, first)
			p.Interfaces = bothInterfaces(old, p) // whichever it carries is not free
		}
	}
	s.pods[id] = p
	return nil
}

func (s *Snapshot) addNode(o *object, first string) error {
	node := &corev1.Node{}
	if err := decode(o.text, node); err != nil {
		head := &metav1.PartialObjectMetadata{}
		_ = decode(o.text, head) // of the labels those that can be read
		s.nodes[o.name] = &podstate.Node{Name: o.name, Labels: head.Labels}
		return err
	}
	n := podstate.ReadNode(node)
	if old := s.nodes[n.Name]; first != "" && old != nil && !sameBut(old, n, func(n *podstate.Node) { n.ResourceVersion = "" }) {
		s.reportTwo(o, first)
		n = &podstate.Node{Name: n.Name, Labels: n.Labels} // not Ready, and nothing is proven of it
	}
	s.nodes[n.Name] = n
	return nil
}

func (s *Snapshot) addLease(o *object) error {
	lease := &coordinationv1.Lease{}
	err := decode(o.text, lease)
	if err != nil {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: o.name}}
		lease.Spec.RenewTime = &metav1.MicroTime{} // there is one, and it makes no report fresh
	}
	s.leases = append(s.leases, lease)
	return err
}

func (s *Snapshot) addReport(o *object, first string) error {
	report := &v1alpha1.SandboxReport{}
	err := decode(o.text, report)
	if err == nil && report.Name == "" {
		err = errors.New("metadata.name is missing")
	}
	if err != nil {
		s.badReport = true
		return err
	}
	switch at, there := s.reportAt[report.Name]; {
	case !there:
		s.reportAt[report.Name] = len(s.reports)
		s.reports = append(s.reports, report)
	case differs(s.reports[at], report):
		s.reportTwo(o, first)
		s.disputedReports[report.Name] = true
	}
	return nil
}

func decode(text []byte, into any) error {
	return kjson.UnmarshalCaseSensitivePreserveInts(text, into)
}
