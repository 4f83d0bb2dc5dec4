// Package snapshot is a folder of YAML or JSON files, as 'kubectl get -o yaml'
// writes them, as a source of observations and as a writer: the same verdicts
// and the same patches as on a live cluster.
package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// Folder is a snapshot of a cluster.
type Folder struct {
	dir             *disk
	now             time.Time
	namespace       string     // the reconciler's own
	mu              sync.Mutex // for deletions, which come several at once
	files           []*file
	pools           []pool
	reservations    []reservation
	nads            map[types.NamespacedName]*ippool.NAD
	pods            map[types.NamespacedName]*podstate.Pod
	nodes           map[string]*podstate.Node
	reports         []*v1alpha1.SandboxReport
	leases          []*coordinationv1.Lease
	namespaces      map[string]map[string]string // their annotations
	seenIn          map[string]string            // "<kind> <namespace> <name>" → file
	unreadable      []string
	badReport       bool     // one of them is a report
	disputedReports []string // names of reports that stand in the folder with two contents
	ignored         int
}

// pool and reservation are with where they stand, since they may be written.
type (
	pool struct {
		*ippool.Pool
		*object
	}
	reservation struct {
		*ippool.Reservation
		*object
	}
)

// noVersion is the resourceVersion of a pool that has none: a patch needs
// something to test.
const noVersion = "1"

// Open reads a folder and those in it: files ending in .yaml, .yml or .json.
// now is the snapshot's time; zero takes the newest Lease renewal or report in
// it, else the wall clock. namespace is the reconciler's own. It is an error if a file is not YAML or JSON, if a
// link leads out of the folder, since what is not read counts as not there, or if
// there is no IPPool at all: that is not what was meant.
func Open(dir string, now time.Time, namespace string) (*Folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	f := &Folder{dir: &disk{root}, now: now, namespace: namespace, nads: map[types.NamespacedName]*ippool.NAD{}, pods: map[types.NamespacedName]*podstate.Pod{}, nodes: map[string]*podstate.Node{}, namespaces: map[string]map[string]string{}, seenIn: map[string]string{}}
	names, err := f.dir.list()
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	for _, name := range names {
		file, objects, err := readFile(f.dir, name)
		if err != nil {
			return nil, err
		}
		f.files = append(f.files, file)
		for _, o := range objects {
			f.sort(o)
			o.text = nil
		}
	}
	if len(f.pools) == 0 {
		return nil, fmt.Errorf("no IPPool in %s (%d YAML and JSON files): export one with 'kubectl get ippools -A -o yaml'", dir, len(names))
	}
	if f.now.IsZero() {
		f.now = f.newest()
	}
	return f, nil
}

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

// sort puts an object with its kind. One that cannot be read is said, and is
// never taken for one that is not there.
func (f *Folder) sort(o *object) {
	var err error
	kind := o.kind
	if group, ok := groupOf(kind); ok && schema.FromAPIVersionAndKind(o.apiVersion, kind).Group != group {
		kind = "other" // Calico, for one, has IPPools of its own
	}
	if first, twice := f.seenIn[o.ref()]; twice && (kind == "IPPool" || kind == "OverlappingRangeIPReservation") {
		f.unreadable = append(f.unreadable, fmt.Sprintf("%s: %s stands in %s already; that one counts", o.file.path, o.ref(), first))
		return
	}
	first, twice := f.seenIn[o.ref()]
	if !twice {
		f.seenIn[o.ref()] = o.file.path
	}
	id := types.NamespacedName{Namespace: o.namespace, Name: o.name}
	switch kind {
	case "IPPool":
		var p *ippool.Pool
		if p, err = ippool.DecodePool(o.text); err == nil {
			p.ResourceVersion = cmp.Or(p.ResourceVersion, noVersion)
			f.pools = append(f.pools, pool{p, o})
		}
	case "OverlappingRangeIPReservation":
		var r *ippool.Reservation
		if r, err = ippool.DecodeReservation(o.text); err == nil {
			f.reservations = append(f.reservations, reservation{r, o})
		}
	case "NetworkAttachmentDefinition":
		var n *ippool.NAD
		if n, err = ippool.DecodeNAD(o.text); err == nil && twice && differs(f.nads[id], n) {
			n = &ippool.NAD{Namespace: n.Namespace, Name: n.Name, Problem: f.recordDuplicate(o, first)}
		}
		f.nads[id] = n
	case "Namespace":
		ns := &metav1.PartialObjectMetadata{}
		err = decode(o.text, ns)
		f.namespaces[o.name] = ns.Annotations
	case "Pod":
		pod := &corev1.Pod{}
		if err = decode(o.text, pod); err == nil {
			p := podstate.ReadPod(pod)
			if old := f.pods[p.NamespacedName]; twice && differs(old, p) {
				p.Disputed = f.recordDuplicate(o, first)
				p.Interfaces = slices.Concat(old.Interfaces, p.Interfaces) // whichever it carries is not free
			}
			f.pods[p.NamespacedName] = p
			break
		}
		f.pods[id] = &podstate.Pod{NamespacedName: id, UID: o.uid, Phase: podstate.Live, Status: podstate.StatusUnreadable}
	case "Node":
		node := &corev1.Node{}
		if err = decode(o.text, node); err == nil {
			n := podstate.ReadNode(node)
			if twice && differs(f.nodes[n.Name], n) {
				f.recordDuplicate(o, first)
				n = &podstate.Node{Name: n.Name, Labels: n.Labels} // not Ready, and nothing is proven of it
			}
			f.nodes[node.Name] = n
			break
		}
		head := &metav1.PartialObjectMetadata{}
		_ = decode(o.text, head) // of the labels those that can be read
		f.nodes[o.name] = &podstate.Node{Name: o.name, Labels: head.Labels}
	case "Lease":
		lease := &coordinationv1.Lease{}
		if err = decode(o.text, lease); err != nil {
			lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: o.name}}
			lease.Spec.RenewTime = &metav1.MicroTime{} // there is one, and it vouches for nothing
		}
		f.leases = append(f.leases, lease)
	case "SandboxReport":
		report := &v1alpha1.SandboxReport{}
		if err = decode(o.text, report); err == nil && report.Name == "" {
			err = errors.New("metadata.name is missing")
		}
		f.badReport = f.badReport || err != nil
		switch at := slices.IndexFunc(f.reports, func(r *v1alpha1.SandboxReport) bool { return r.Name == report.Name }); {
		case err != nil:
		case at < 0:
			f.reports = append(f.reports, report)
		case differs(f.reports[at], report):
			f.recordDuplicate(o, first)
			f.disputedReports = append(f.disputedReports, report.Name)
		}
	case "NodeSlicePool":
		// It names the present node of a slice, which may not be the one that
		// made the entries: the pools' names are what counts.
	case "":
		err = errors.New("no kind: not a Kubernetes object")
	default:
		f.ignored++
	}
	if err != nil {
		f.unreadable = append(f.unreadable, fmt.Sprintf("%s: %s %s/%s: %v", o.file.path, o.kind, o.namespace, o.name, err))
	}
}

// recordDuplicate says that an object stands in the folder with two contents, of which neither
// is relied upon.
func (f *Folder) recordDuplicate(o *object, first string) string {
	text := fmt.Sprintf("%s %s/%s: %s and %s have it, and differ; leave the one that is right", o.kind, o.namespace, o.name, first, o.file.path)
	f.unreadable = append(f.unreadable, text)
	return text
}

// differs reports whether two copies of an object are not the same.
func differs[T any](a, b *T) bool { return a != nil && !reflect.DeepEqual(a, b) }

// withoutPods says which namespaces have allocations and no pod at all: their pods may
// have been left out of the folder, and nothing tells that from none.
func (f *Folder) withoutPods() []string {
	if len(f.pods) == 0 {
		return nil // that is no answer at all, or vouched for
	}
	has, count := map[string]bool{}, map[string]int{}
	for name := range f.pods {
		has[name.Namespace] = true
	}
	for _, p := range f.pools {
		for i := range p.Allocations {
			if owner := p.Allocations[i].Owner; owner.Namespace != "" && !has[owner.Namespace] {
				count[owner.Namespace]++
			}
		}
	}
	var found []string
	for _, namespace := range slices.Sorted(maps.Keys(count)) {
		found = append(found, fmt.Sprintf("the folder has no pod of namespace %s, and %d allocations of its pods: right only if there are none ('kubectl get pods -A' has all)", namespace, count[namespace]))
	}
	return found
}

func decode(text []byte, into any) error {
	return kjson.UnmarshalCaseSensitivePreserveInts(text, into)
}

// nodeLeases are the Leases that count: named like a Node or a report, outside
// kube-node-lease; of several of one name the newest.
func (f *Folder) nodeLeases() map[string]*coordinationv1.Lease {
	found := map[string]*coordinationv1.Lease{}
	for _, l := range f.leases {
		named := f.nodes[l.Name] != nil || slices.ContainsFunc(f.reports, func(r *v1alpha1.SandboxReport) bool { return r.Name == l.Name })
		if !named || l.Namespace == corev1.NamespaceNodeLease || l.Spec.RenewTime == nil {
			continue
		}
		if old := found[l.Name]; old == nil || old.Spec.RenewTime.Before(l.Spec.RenewTime) {
			found[l.Name] = l
		}
	}
	return found
}

func (f *Folder) newest() time.Time {
	var newest time.Time
	for _, l := range f.nodeLeases() {
		if l.Spec.RenewTime.After(newest) {
			newest = l.Spec.RenewTime.Time
		}
	}
	for _, r := range f.reports {
		if r.ObservedAt.After(newest) {
			newest = r.ObservedAt.Time
		}
	}
	if newest.IsZero() {
		return time.Now()
	}
	return newest
}

// observe builds the observation from what is in memory, which is what is, or
// will be, in the files.
func (f *Folder) observe() *reconciler.Observation {
	own := f.namespaces[f.namespace]
	o := &reconciler.Observation{
		Now: f.now, Paused: own[ippool.PausedAnnotation] == "true", Acknowledged: reconciler.Acknowledged(own), Pods: f.pods, Nodes: f.nodes,
		Unreadable: f.unreadable, ReportsUnreadable: f.badReport,
		NADs: f.nads,
	}
	for _, p := range f.pools {
		o.Pools = append(o.Pools, p.Pool)
	}
	for _, r := range f.reservations {
		o.Reservations = append(o.Reservations, r.Reservation)
	}
	leases := f.nodeLeases()
	for _, r := range f.reports {
		read := podstate.ReadSnapshotReport(r, leases[r.Name], len(leases) > 0)
		if slices.Contains(f.disputedReports, r.Name) {
			read.Renewed = time.Time{} // neither copy may be relied upon
		}
		o.Reports = append(o.Reports, read)
	}
	o.Warnings = append(o.Warnings, f.withoutPods()...)
	if f.ignored > 0 {
		o.Warnings = append(o.Warnings, fmt.Sprintf("%d objects of other kinds were not looked at", f.ignored))
	}
	return o
}
