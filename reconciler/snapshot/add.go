package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/fileform"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

// kinds are the kinds that a snapshot is judged by, each with its API group. add decodes an object. Its error says why
// the object cannot be decoded, or is errDiffers.
var kinds = map[string]struct {
	group string
	add   func(s *Snapshot, o *object) error
}{
	"IPPool":                        {ippool.PoolResource.Group, (*Snapshot).addPool},
	"OverlappingRangeIPReservation": {ippool.PoolResource.Group, (*Snapshot).addReservation},
	"NodeSlicePool":                 {ippool.PoolResource.Group, nil}, // a pool's name says which node has the slice
	"NetworkAttachmentDefinition":   {ippool.NADResource.Group, (*Snapshot).addNAD},
	"IPAMClaim":                     {ippool.ClaimResource.Group, (*Snapshot).addClaim},
	"VirtualMachineInstance":        {podstate.GuestResource.Group, (*Snapshot).addGuest},
	"SandboxReport":                 {v1alpha1.Resource().Group, (*Snapshot).addReport},
	"Lease":                         {coordinationv1.GroupName, (*Snapshot).addLease},
	"Pod":                           {corev1.GroupName, (*Snapshot).addPod},
	"Node":                          {corev1.GroupName, (*Snapshot).addNode},
	"Namespace":                     {corev1.GroupName, (*Snapshot).addNamespace},
	manifestKind:                    {outputGroup, (*Snapshot).addManifest},
	"SysdumpRecord":                 {outputGroup, (*Snapshot).refuseRecord},
}

// judgedKind returns the object's kind if a snapshot is judged by it, "" for any other kind, such as Calico's IPPool.
func (o *object) judgedKind() string {
	if kind, known := kinds[o.kind]; known && kind.group == schema.FromAPIVersionAndKind(o.apiVersion, o.kind).Group {
		return o.kind
	}
	return ""
}

// lacksName reports whether an object lacks the name by which it counts as existing. A report without a name has a rule
// of its own.
func (o *object) lacksName() bool {
	switch o.kind {
	case manifestKind, "SysdumpRecord", "SandboxReport":
		return false
	case "Pod":
		return o.Name == "" || o.Namespace == ""
	}
	return o.Name == ""
}

// errDiffers is the error of an object that is in two files with different contents.
var errDiffers = errors.New("differ")

// add adds an object. It reports an object that cannot be decoded, which never counts as missing. Two copies that
// differ are an error, since either may be right.
func (s *Snapshot) add(o *object) error {
	first, duplicate := s.seenIn[o.ref()]
	if !duplicate {
		s.seenIn[o.ref()] = o.path
	}
	var err error
	s.seen[o.judgedKind()] = true
	switch kind, known := kinds[o.kind]; {
	case o.kind == "":
		err = errors.New("no kind: not a Kubernetes object")
	case known && kind.group != "" && o.apiVersion == "":
		return fmt.Errorf("%s: %s has no apiVersion, so it cannot be read: export it again", o.path, o.ref())
	case o.judgedKind() != "" && o.lacksName():
		s.nameless = cmp.Or(s.nameless, fmt.Errorf("%s: a %s has no name or namespace, so it is unknown which one it is: "+
			"export it again", o.path, o.kind))
	case o.judgedKind() == "":
		s.ignored++ // for example the IPPools of Calico
	case kind.add != nil:
		if first != o.path { // a second copy in a file is no other object
			s.counts[listKey{o.path, o.kind}]++
		}
		err = kind.add(s, o)
	}
	switch {
	case errors.Is(err, errDiffers):
		return fmt.Errorf("%s: %s and %s %w: remove the copy that is not right", o.ref(), first, o.path, err)
	case err != nil && kinds[o.kind].group == outputGroup:
		return fmt.Errorf("%s: %w", o.path, err)
	case err != nil && o.kind == "SandboxReport":
		s.unreadReportNotes = append(s.unreadReportNotes, s.report("%s: %s: %v", o.path, o.ref(), err))
	case err != nil:
		s.report("%s: %s: %v", o.path, o.ref(), err)
	}
	return nil
}

// keep stores an object. Copies that differ only in their resourceVersion are one object. withoutVersion clears that
// field.
func keep[K comparable, V any](all map[K]*V, key K, read *V, withoutVersion func(*V)) error {
	old := all[key]
	if old == nil {
		all[key] = read
		return nil
	}
	a, b := *old, *read
	withoutVersion(&a)
	withoutVersion(&b)
	if !reflect.DeepEqual(a, b) {
		return errDiffers
	}
	return nil
}

func (s *Snapshot) report(format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	s.observed.Unreadable = append(s.observed.Unreadable, text)
	s.kept += len(text)
	return text
}

func (s *Snapshot) addNamespace(o *object) error {
	if uid := string(o.UID); o.Name == metav1.NamespaceSystem && uid != "" {
		if s.ClusterUID != "" && s.ClusterUID != uid {
			return errDiffers
		}
		s.ClusterUID = uid
	}
	if o.Name != s.namespace {
		return nil
	}
	ns := &metav1.PartialObjectMetadata{}
	err := decode(o.text, ns)
	if err != nil { // the annotation that pauses everything may be there
		ns.Annotations = map[string]string{ippool.PausedAnnotation: "true"}
	}
	if s.ownNamespace != nil && !maps.Equal(s.ownNamespace.Annotations, ns.Annotations) {
		return errDiffers
	}
	s.ownNamespace, s.observed.Paused, s.observed.Acknowledged = ns, ippool.Pauses(ns.Annotations),
		restore.Acknowledged(ns.Annotations)
	return err
}

func (s *Snapshot) addPool(o *object) error {
	p, err := ippool.Decode[ippool.Pool](o.text)
	if err != nil {
		return err
	}
	p.ResourceVersion = cmp.Or(p.ResourceVersion, noVersion)
	return keep(s.pools, o.ref(), p, func(p *ippool.Pool) { p.ResourceVersion = "" })
}

func (s *Snapshot) addReservation(o *object) error {
	r, err := ippool.Decode[ippool.Reservation](o.text)
	if err != nil {
		return err
	}
	return keep(s.reservations, o.ref(), r, func(r *ippool.Reservation) { r.ResourceVersion = "" })
}

func (s *Snapshot) addNAD(o *object) error {
	n, err := ippool.Decode[ippool.NAD](o.text)
	return cmp.Or(keep(s.nads, o.NamespacedName, n, func(*ippool.NAD) {}), err)
}

func (s *Snapshot) addClaim(o *object) error {
	c, err := ippool.Decode[ippool.Claim](o.text)
	if err != nil { // it exists
		c = &ippool.Claim{NamespacedName: o.NamespacedName}
	}
	return cmp.Or(keep(s.claims, o.NamespacedName, c, func(*ippool.Claim) {}), err)
}

// addGuest adds a VirtualMachineInstance. Of two copies that differ all addresses count.
func (s *Snapshot) addGuest(o *object) error {
	g, err := podstate.DecodeGuest(o.text)
	if err == nil {
		s.guests = append(s.guests, g)
	}
	return err
}

// addPod adds a pod. 'oc adm inspect' reads a running pod twice, and its copies may differ. Such a pod is disputed: its
// allocations and the addresses of all copies are held. So are the allocations of a pod that lacks what every pod has.
// One that cannot be decoded may carry any address, whatever its other copies have.
func (s *Snapshot) addPod(o *object) error {
	pod := &corev1.Pod{}
	if err := decode(o.text, pod); err != nil {
		text := s.report("%s: %s: %v", o.path, o.ref(), err)
		if old := s.observed.Pods[o.NamespacedName]; old != nil { // its addresses still count
			old.Contradiction, old.Status = text, podstate.StatusUnreadable
			return nil
		}
		s.observed.Pods[o.NamespacedName] = &podstate.Pod{NamespacedName: o.NamespacedName, UID: o.UID, Phase: podstate.Live,
			Status: podstate.StatusUnreadable, Contradiction: text}
		return nil
	}
	p := podstate.ReadPod(pod)
	var missing string
	switch {
	case p.UID == "":
		missing = "metadata.uid is missing"
	case p.Node == "" && podstate.WasBound(pod):
		missing = "spec.nodeName is missing, and by its status the pod has a node"
	}
	if missing != "" {
		p.Contradiction = s.report("%s: %s: %s: export it again", o.path, o.ref(), missing)
		s.lacking = append(s.lacking, p)
	}
	if keep(s.observed.Pods, o.NamespacedName, p, func(p *podstate.Pod) { p.ResourceVersion = "" }) != nil {
		old := s.observed.Pods[o.NamespacedName]
		p.Contradiction = s.report("%s: %s and %s %v; remove the copy that is not right", o.ref(), s.seenIn[o.ref()],
			o.path, errDiffers)
		p.Node, p.Interfaces = cmp.Or(p.Node, old.Node), append(old.Interfaces, p.Interfaces...)
		if old.Status == podstate.StatusUnreadable {
			p.Status = old.Status
		}
		s.observed.Pods[o.NamespacedName] = p
	}
	return nil
}

func (s *Snapshot) addNode(o *object) error {
	node := &corev1.Node{}
	err := decode(o.text, node)
	n := podstate.ReadNode(node)
	if err != nil { // the node exists and is not Ready; its labels may be readable
		head := &metav1.PartialObjectMetadata{}
		_ = decode(o.text, head)
		n = &podstate.Node{Name: o.Name, Labels: head.Labels}
	}
	return cmp.Or(keep(s.nodes, n.Name, n, func(n *podstate.Node) { n.ResourceVersion = "" }), err)
}

func (s *Snapshot) addLease(o *object) error {
	lease := &coordinationv1.Lease{}
	err := decode(o.text, lease)
	if err != nil {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name}}
		lease.Spec.RenewTime = &metav1.MicroTime{} // the Lease exists, and makes no report fresh
	}
	if lease.Name == restore.Lease && lease.Namespace == s.namespace {
		s.observed.RestoreState = lease.Annotations[restore.StateAnnotation]
	}
	s.leases = append(s.leases, lease)
	return err
}

func (s *Snapshot) addReport(o *object) error {
	report := &v1alpha1.SandboxReport{}
	err := decode(o.text, report)
	if err == nil && report.Name == "" {
		err = errors.New("metadata.name is missing")
	}
	if err != nil && o.Name == "" {
		s.isReportNameless = true
		return err
	}
	if err != nil {
		s.unreadReports = append(s.unreadReports, podstate.UnreadReport(o.Name, "", ""))
		return err
	}
	return keep(s.reports, report.Name, report, func(r *v1alpha1.SandboxReport) { r.ResourceVersion = "" })
}

func decode(text []byte, into any) error {
	return fileform.FieldError(kjson.UnmarshalCaseSensitivePreserveInts(text, into))
}
