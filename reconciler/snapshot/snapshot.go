// Package snapshot is a folder of YAML or JSON files, as 'kubectl get -o yaml'
// writes them, as a source of observations and as a writer: the same verdicts
// and the same patches as on a live cluster.
//
// Open reads a Folder: source.go takes in the files that disk.go finds in a folder, which no
// link leads out of, or archive.go in an archive or stream; foreign.go tells which of them may
// be left out. read.go splits files into objects (yaml.go, and lean.go, which drops what nobody
// reads), objects.go decodes them by kind, and copies.go decides between two of one object.
// write.go is the writer; file.go and node.go change a file so that comments and order stay.
package snapshot

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Folder is a snapshot of a cluster.
type Folder struct {
	dir             *disk // nil where nothing can be written
	now             time.Time
	nowBy           string     // what now is taken from; "" where it was given
	gathered        time.Time  // when what wrote the snapshot began, by its timestamp file
	namespace       string     // the reconciler's own
	mu              sync.Mutex // for deletions, which come several at once
	files           []*file
	pools           []pool
	poolAt          map[types.NamespacedName]int
	reservations    []*reservation
	byName          map[types.NamespacedName]*reservation // those that are there
	twice           map[string]string                     // pools and reservations with several copies, as in seenIn → where they stand
	nads            map[types.NamespacedName]*ippool.NAD
	pods            map[types.NamespacedName]*podstate.Pod
	nodes           map[string]*podstate.Node
	reports         []*v1alpha1.SandboxReport
	reportAt        map[string]int // by name
	leases          []*coordinationv1.Lease
	namespaces      map[string]map[string]string // their annotations
	seenIn          map[string]string            // "<kind> <namespace> <name>" → file
	unreadable      []string
	badReport       bool              // one of them is a report
	disputedReports map[string]bool   // names of reports of which the folder has two contents
	ignored, kept   int               // objects of other kinds, and bytes that are kept of all
	skipped         int               // files that hold no objects
	skippedFirst    string            // one of them
	names           map[string]bool   // of the files that were read, in the folder
	misnamed        map[string]string // names of files that look as if they should have been read → where they are
}

// pool and reservation are kept with their place in the files, since they may be written.
type (
	pool struct {
		*ippool.Pool
		*object
	}
	reservation struct {
		*ippool.Reservation
		*object
		deleted bool
	}
)

// noVersion is the resourceVersion of a pool that has none: a patch needs
// something to test.
const noVersion = "1"

// Open reads a folder and those in it, a tar archive, packed with gzip or not, or one file of
// YAML or JSON. In a folder and an archive the files ending in .yaml, .yml or .json are read;
// those that hold no Kubernetes objects are left out and counted.
// now is the snapshot's time; zero takes it from the snapshot (time.go). namespace is the reconciler's own. It is an error if a file is not
// YAML or JSON and may hold an object that is judged by, if a link leads out of the folder to
// such a file, since what is not read counts as not there, or if there is no IPPool at all:
// that is not what was meant.
func Open(path string, now time.Time, namespace string) (*Folder, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	if !info.IsDir() {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("read snapshot: %w", err)
		}
		defer file.Close()
		return OpenStream(path, file, now, namespace)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	dir := &disk{root}
	return open(path, dir, dir, now, namespace)
}

// OpenStream reads a stream to its end: a tar archive, packed with gzip or not, or YAML or
// JSON, which is told by its content. name is for messages. Nothing can be written to it.
func OpenStream(name string, r io.Reader, now time.Time, namespace string) (*Folder, error) {
	from, err := openStream(name, r)
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	return open(name, from, nil, now, namespace)
}

func open(path string, from source, dir *disk, now time.Time, namespace string) (*Folder, error) {
	f := &Folder{
		dir: dir, now: now, namespace: namespace, nads: map[types.NamespacedName]*ippool.NAD{}, pods: map[types.NamespacedName]*podstate.Pod{},
		nodes: map[string]*podstate.Node{}, namespaces: map[string]map[string]string{}, seenIn: map[string]string{}, names: map[string]bool{}, misnamed: map[string]string{},
		byName: map[types.NamespacedName]*reservation{}, twice: map[string]string{},
		poolAt: map[types.NamespacedName]int{}, reportAt: map[string]int{}, disputedReports: map[string]bool{},
	}
	if err := from.each(f.take, f.skip); err != nil {
		return nil, err
	}
	if err := f.checkMisnamed(); err != nil {
		return nil, err
	}
	if len(f.pools) == 0 {
		return nil, fmt.Errorf("no IPPool in %s (%d files with Kubernetes objects, %d without): export one with 'kubectl get ippools.whereabouts.cni.cncf.io -A -o yaml'", path, len(f.files), f.skipped)
	}
	if f.now.IsZero() {
		f.now, f.nowBy = f.time()
	}
	return f, nil
}

// withoutPods warns of namespaces that have allocations and no pod at all: their pods may
// have been left out of the folder, which looks the same.
func (f *Folder) withoutPods() []string {
	if len(f.pods) == 0 {
		return nil // then the pods are missing as a whole, or the caller knows that there are none
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
		found = append(found, fmt.Sprintf("the snapshot has no pods of namespace %s, and %d allocations belong to it. If the namespace was not exported, their verdicts are wrong: export it, too", namespace, count[namespace]))
	}
	return found
}

// nodeLeases are the Leases that count: named like a Node or a report, outside
// kube-node-lease; of several of one name the newest.
func (f *Folder) nodeLeases() map[string]*coordinationv1.Lease {
	found := map[string]*coordinationv1.Lease{}
	reported := map[string]bool{}
	for _, r := range f.reports {
		reported[r.Name] = true
	}
	for _, l := range f.leases {
		if named := f.nodes[l.Name] != nil || reported[l.Name]; !named || l.Namespace == corev1.NamespaceNodeLease || l.Spec.RenewTime == nil {
			continue
		}
		if old := found[l.Name]; old == nil || old.Spec.RenewTime.Before(l.Spec.RenewTime) {
			found[l.Name] = l
		}
	}
	return found
}

// observe builds the observation from what is in memory, which is what is, or
// will be, in the files.
func (f *Folder) observe() *judge.Observation {
	own := f.namespaces[f.namespace]
	o := &judge.Observation{
		Now: f.now, Paused: ippool.Pauses(own), Acknowledged: judge.Acknowledged(own), Pods: f.pods, Nodes: f.nodes,
		Unreadable: f.unreadable, ReportsUnreadable: f.badReport,
		NADs: f.nads,
	}
	for _, p := range f.pools {
		o.Pools = append(o.Pools, p.Pool)
	}
	for _, r := range f.reservations {
		if r.deleted {
			continue
		}
		o.Reservations = append(o.Reservations, r.Reservation)
	}
	leases := f.nodeLeases()
	for _, r := range f.reports {
		read := podstate.ReadSnapshotReport(r, leases[r.Name], len(leases) > 0)
		if f.disputedReports[r.Name] {
			read.Renewed = time.Time{} // neither copy may be relied upon
		}
		o.Reports = append(o.Reports, read)
	}
	if f.nowBy != "" {
		o.Warnings = append(o.Warnings, fmt.Sprintf("judged as of %s, by %s; --now takes another time", f.now.UTC().Format(time.RFC3339), f.nowBy))
	}
	o.Warnings = append(o.Warnings, f.withoutPods()...)
	switch {
	case f.skipped == 1:
		o.Warnings = append(o.Warnings, fmt.Sprintf("1 file that holds no Kubernetes objects was skipped: %s", f.skippedFirst))
	case f.skipped > 1:
		o.Warnings = append(o.Warnings, fmt.Sprintf("%d files that hold no Kubernetes objects were skipped, e.g. %s", f.skipped, f.skippedFirst))
	}
	if f.ignored > 0 {
		o.Warnings = append(o.Warnings, fmt.Sprintf("%d objects of other kinds were ignored", f.ignored))
	}
	return o
}
