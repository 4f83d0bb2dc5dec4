package snapshot

import (
	"cmp"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// kinds are the kinds that are read, each with its API group and what takes in an object. first is the file that has
// another copy of the object, "" if none has. The error says why the object cannot be read.
var kinds = map[string]struct {
	group string
	add   func(s *Snapshot, o *object, first string) error
}{
	"IPPool":                        {ippool.PoolResource.Group, (*Snapshot).addPool},
	"OverlappingRangeIPReservation": {ippool.PoolResource.Group, (*Snapshot).addReservation},
	"NodeSlicePool":                 {ippool.PoolResource.Group, nil}, // the names of the pools say which node has a slice
	"NetworkAttachmentDefinition":   {ippool.NADResource.Group, (*Snapshot).addNAD},
	"SandboxReport":                 {v1alpha1.Resource().Group, (*Snapshot).addReport},
	"Lease":                         {coordinationv1.GroupName, (*Snapshot).addLease},
	"Pod":                           {corev1.GroupName, (*Snapshot).addPod},
	"Node":                          {corev1.GroupName, (*Snapshot).addNode},
	"Namespace":                     {corev1.GroupName, (*Snapshot).addNamespace},
}

// add takes in an object. One that cannot be read is reported, and is never taken for one
// that does not exist.
func (s *Snapshot) add(o *object) {
	first, duplicate := s.seenIn[o.ref()]
	if !duplicate {
		s.seenIn[o.ref()] = o.path
	}
	var err error
	switch kind, known := kinds[o.kind]; {
	case o.kind == "":
		err = errors.New("no kind: not a Kubernetes object")
	case !known || kind.group != schema.FromAPIVersionAndKind(o.apiVersion, o.kind).Group:
		s.ignored++ // Calico, for one, has IPPools of its own
	case kind.add != nil:
		err = kind.add(s, o, first)
	}
	if err != nil {
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
func (s *Snapshot) addPool(o *object, first string) error {
	p, err := ippool.DecodePool(o.text)
	if err != nil {
		return err
	}
	p.ResourceVersion = cmp.Or(p.ResourceVersion, noVersion)
	old := s.pools[o.ref()]
	// The first may not have been readable.
	if old == nil || sameBut(old, p, func(p *ippool.Pool) { p.ResourceVersion = "" }) {
		s.pools[o.ref()] = cmp.Or(old, p)
		return nil
	}
	inOrder, ordered := versionsInOrder(old.ResourceVersion, p.ResourceVersion)
	switch {
	case p.UID == "" || p.UID != old.UID || !ordered:
		s.countsFirst(o, first)
	case inOrder:
		s.pools[o.ref()] = p
	}
	return nil
}

func (s *Snapshot) addReservation(o *object, first string) error {
	r, err := ippool.DecodeReservation(o.text)
	if err != nil {
		return err
	}
	old := s.reservations[o.ref()]
	if old != nil && !sameBut(old, r, func(r *ippool.Reservation) { r.ResourceVersion = "" }) {
		s.countsFirst(o, first)
	}
	s.reservations[o.ref()] = cmp.Or(old, r)
	return nil
}

func (s *Snapshot) addNAD(o *object, first string) error {
	n, err := ippool.DecodeNAD(o.text)
	if err == nil && first != "" && differs(s.nads[o.id()], n) {
		n = &ippool.NAD{Namespace: n.Namespace, Name: n.Name, Problem: s.reportTwo(o, first)}
	}
	s.nads[o.id()] = n
	return err
}

func (s *Snapshot) addPod(o *object, first string) error {
	pod := &corev1.Pod{}
	if err := decode(o.text, pod); err != nil {
		unread := podstate.Pod{NamespacedName: o.id(), UID: o.uid, Phase: podstate.Live, Status: podstate.StatusUnreadable}
		s.pods[o.id()] = &unread
		return err
	}
	p := podstate.ReadPod(pod)
	if old := s.pods[o.id()]; first != "" && differs(old, p) {
		if newer := newerPod(old, p); newer != nil {
			p = newer
		} else {
			p.Disputed = s.reportTwo(o, first)
			p.Interfaces = bothInterfaces(old, p) // whichever it carries is not free
		}
	}
	s.pods[o.id()] = p
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

func (s *Snapshot) addLease(o *object, _ string) error {
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
	old := s.reports[report.Name]
	if differs(old, report) {
		s.reportTwo(o, first)
		s.disputedReports[report.Name] = true
	}
	s.reports[report.Name] = cmp.Or(old, report)
	return nil
}

func decode(text []byte, into any) error {
	return kjson.UnmarshalCaseSensitivePreserveInts(text, into)
}
