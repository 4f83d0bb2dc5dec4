// Package snapshot reads exported objects, as 'kubectl get -o yaml' writes them, as a source of observations: the
// same verdicts as on a live cluster. Nothing is written.
//
// Open reads a folder or a file: source.go takes in the files that disk.go finds in a folder, which no
// link leads out of, or archive.go in an archive or stream; foreign.go tells which of them may
// be left out. read.go splits files into objects (yaml.go, and lean.go, which drops what nobody
// reads), objects.go decodes them by kind, and copies.go decides between two of one object.
package snapshot

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Snapshot is a snapshot of a cluster. It is a reconciler.Source.
type Snapshot struct {
	now             time.Time
	nowBy           string    // what now is taken from; "" where it was given
	gathered        time.Time // when what wrote the snapshot began, by its timestamp file
	namespace       string    // the reconciler's own
	files           int       // that hold objects
	pools           []*ippool.Pool
	poolAt          map[types.NamespacedName]int
	reservations    []*ippool.Reservation
	reservationAt   map[types.NamespacedName]*ippool.Reservation
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
func Open(path string, now time.Time, namespace string) (*Snapshot, error) {
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
	return open(path, &disk{root}, now, namespace)
}

// OpenStream reads a stream to its end: a tar archive, packed with gzip or not, or YAML or
// JSON, which is told by its content. name is for messages.
func OpenStream(name string, r io.Reader, now time.Time, namespace string) (*Snapshot, error) {
	from, err := openStream(name, r)
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	return open(name, from, now, namespace)
}

func open(path string, from source, now time.Time, namespace string) (*Snapshot, error) {
	f := &Snapshot{
		now: now, namespace: namespace, nads: map[types.NamespacedName]*ippool.NAD{}, pods: map[types.NamespacedName]*podstate.Pod{},
		nodes: map[string]*podstate.Node{}, namespaces: map[string]map[string]string{}, seenIn: map[string]string{}, names: map[string]bool{}, misnamed: map[string]string{},
		reservationAt: map[types.NamespacedName]*ippool.Reservation{},
		poolAt:        map[types.NamespacedName]int{}, reportAt: map[string]int{}, disputedReports: map[string]bool{},
	}
	if err := from.each(f.take, f.skip); err != nil {
		return nil, err
	}
	if err := f.checkMisnamed(); err != nil {
		return nil, err
	}
	if len(f.pools) == 0 {
		return nil, fmt.Errorf("no IPPool in %s (%d files with Kubernetes objects, %d without): export one with 'kubectl get ippools.whereabouts.cni.cncf.io -A -o yaml'", path, f.files, f.skipped)
	}
	if f.now.IsZero() {
		f.now, f.nowBy = f.time()
	}
	return f, nil
}

// withoutPods warns of namespaces that have allocations and no pod at all: their pods may
// have been left out of the folder, which looks the same.
func (f *Snapshot) withoutPods() []string {
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
func (f *Snapshot) nodeLeases() map[string]*coordinationv1.Lease {
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

// Relist finds nothing changed.
func (f *Snapshot) Relist(ctx context.Context, _ *judge.Observation) (*judge.Observation, error) {
	return f.List(ctx)
}

// GetLive finds nothing changed.
func (f *Snapshot) GetLive(context.Context, *judge.Observation, reconciler.LiveKeys) (*judge.Live, error) {
	return &judge.Live{}, nil
}

// List is everything that is in the snapshot.
func (f *Snapshot) List(context.Context) (*judge.Observation, error) {
	own := f.namespaces[f.namespace]
	o := &judge.Observation{
		Now: f.now, Paused: ippool.Pauses(own), Acknowledged: judge.Acknowledged(own), Pods: f.pods, Nodes: f.nodes,
		Unreadable: f.unreadable, ReportsUnreadable: f.badReport,
		NADs: f.nads, Pools: f.pools, Reservations: f.reservations, Static: true,
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
	return o, nil
}
