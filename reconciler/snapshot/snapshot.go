// Package snapshot reads exported objects, as 'kubectl get -o yaml' writes them. They are a source of observations with
// the same verdicts as on a live cluster. The package writes nothing.
//
// Open and OpenStream walk over a folder, an archive or a stream (walk.go). layout.go knows which files may be skipped,
// and time.go when the snapshot was taken. yaml.go makes JSON of YAML, objects.go splits it into objects, and add.go
// decodes them by kind. limits.go bounds the memory.
//
// Of a bundle of sysdump, bundle.go writes the files, written.go and writtenreports.go the objects in them, and
// manifest.go checks that all of them were read.
package snapshot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// Snapshot is a snapshot of a cluster. It is a reconciler.Source.
type Snapshot struct {
	// ClusterUID is the UID of the namespace kube-system, "" if the files do not have it.
	ClusterUID string

	observed      facts.Observation
	gathered      time.Time                      // by its timestamp file
	namespace     string                         // of the reconciler
	pools         map[string]*ippool.Pool        // by object.ref
	reservations  map[string]*ippool.Reservation // by object.ref
	nads          map[types.NamespacedName]*ippool.NAD
	nodes         map[string]*podstate.Node
	claims        map[types.NamespacedName]*ippool.Claim
	guests        []*podstate.Guest
	reports       map[string]*v1alpha1.SandboxReport
	leases        []*coordinationv1.Lease
	unreadReports []*podstate.Report // that cannot be decoded
	// unreadReportNotes are the sentences about those reports. The manifest of a bundle has its own.
	unreadReportNotes []string
	// isReportNameless: a report cannot be decoded, and does not say of which node it is.
	isReportNameless bool
	nameless         error           // an object that would count as missing under its name
	lacking          []*podstate.Pod // pods that lack a field that every such pod has
	ownNamespace     *metav1.PartialObjectMetadata
	seenIn           map[string]string // object.ref → the first file that has it
	bundle           *bundle           // nil for files without the manifest of sysdump
	dumped           string            // the first file that sysdump wrote
	counts           map[listKey]int   // objects of kinds that are judged
	ignored          int               // objects of other kinds
	kept             int               // bytes of all objects
	files, skipped   int               // files with objects, and others
	skippedFirst     string            // one of the others
	seen             map[string]bool   // see has
	described        string            // the first file with pools as text
	newest           time.Time         // of all times in objects
	newestIn         string            // the object
}

// noVersion is the resourceVersion of a pool without one: a patch tests a resourceVersion.
const noVersion = "1"

// Open reads a folder, a tar archive, packed with gzip or not, or one file of YAML or JSON. In a folder and an archive
// it reads the files that end in .yaml, .yml or .json. It skips and counts those without Kubernetes objects. now is the
// snapshot's time; zero takes it from the snapshot (time.go). namespace is the reconciler's.
//
// An object that is not read would count as not existing. So these are errors: a file that is not YAML or JSON and may
// have an object that is judged, a link that may lead to such a file, two copies of an object that differ, no IPPool.
func Open(path string, now time.Time, namespace string) (*Snapshot, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.IsDir() {
		return OpenStream(path, file, now, namespace)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	defer root.Close()
	return open(path, walkFolder(root), now, namespace)
}

// OpenStream reads a stream to its end: a tar archive, YAML or JSON, packed with gzip or not. name is for messages.
func OpenStream(name string, r io.Reader, now time.Time, namespace string) (*Snapshot, error) {
	files, err := walkStream(name, r)
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	return open(name, files, now, namespace)
}

// export is the command that writes the objects of a cluster to a file.
const export = "kubectl get ippools.whereabouts.cni.cncf.io,overlappingrangeipreservations.whereabouts.cni.cncf.io," +
	"network-attachment-definitions.k8s.cni.cncf.io,pods,nodes -A -o yaml > cluster.yaml"

func open(path string, files walk, now time.Time, namespace string) (*Snapshot, error) {
	s := &Snapshot{
		namespace: namespace, pools: map[string]*ippool.Pool{}, reservations: map[string]*ippool.Reservation{},
		seenIn: map[string]string{}, seen: map[string]bool{}, reports: map[string]*v1alpha1.SandboxReport{},
		nads: map[types.NamespacedName]*ippool.NAD{}, nodes: map[string]*podstate.Node{},
		claims: map[types.NamespacedName]*ippool.Claim{}, counts: map[listKey]int{},
		observed: facts.Observation{Pods: map[types.NamespacedName]*podstate.Pod{}},
	}
	if err := files(s.take); err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	if s.bundle != nil {
		return s, cmp.Or(s.nameless, s.completeBundle(now))
	}
	if len(s.pools) == 0 && s.described != "" {
		return nil, fmt.Errorf("no IPPool in %s: %s has them as text alone, as a must-gather of OpenShift before 4.14 has. "+
			"Export all from the cluster, and judge that: %s", path, s.described, export)
	}
	if len(s.pools) == 0 {
		return nil, fmt.Errorf("no IPPool in %s (files with Kubernetes objects: %d, without: %d): export all with '%s'",
			path, s.files, s.skipped, export)
	}
	if s.nameless != nil {
		return nil, fmt.Errorf("read snapshot: %w", s.nameless)
	}
	s.complete(now)
	return s, nil
}

// complete adds to the observation what depends on several objects.
func (s *Snapshot) complete(now time.Time) {
	o := &s.observed
	o.Now, o.Static, o.Pools = now, true, sorted(s.pools)
	leases := s.nodeLeases()
	reports := s.unreadReports
	for _, r := range sorted(s.reports) {
		reports = append(reports, podstate.ReadSnapshotReport(r, leases[r.Name]))
	}
	o.Reports, o.AgentLeases = facts.Complete(reports, ""), facts.Complete(len(leases) > 0, "")
	if s.isReportNameless {
		o.Reports = facts.Unknown[[]*podstate.Report](
			errors.New("the snapshot contains a SandboxReport that cannot be decoded"))
	}
	s.addUnreadClaims()
	o.Reservations = exported(s, "OverlappingRangeIPReservation", sorted(s.reservations))
	o.NADs = exported(s, "NetworkAttachmentDefinition", s.nads)
	o.Nodes = exported(s, "Node", s.nodes)
	o.IPAMClaims = exported(s, "IPAMClaim", s.claims)
	o.Guests = exported(s, "VirtualMachineInstance", s.guests)
	warn := func(format string, args ...any) { o.Warnings = append(o.Warnings, fmt.Sprintf(format, args...)) }
	at, by := s.time()
	switch {
	case now.IsZero():
		o.Now = at
		warn("the snapshot's time is taken from %s; --now sets another", by)
	case now.Before(s.newest):
		warn("--now %s is before the newest time in the snapshot, %s in %s: the ages of objects are wrong",
			now.UTC().Format(time.RFC3339), s.newest.UTC().Format(time.RFC3339), s.newestIn)
	}
	if o.Cut = s.dumped; s.dumped != "" {
		warn("sysdump wrote %s, but the archive's manifest.json is missing, so other files may be missing, too. A pod that "+
			"is missing counts as gone: judge the archive as sysdump wrote it", s.dumped)
	}
	s.withoutLeases(leases, warn)
	s.withoutPods(warn)
	if s.skipped > 0 {
		warn("files skipped because they hold no Kubernetes objects: %d, for example %s", s.skipped, s.skippedFirst)
	}
	if s.ignored > 0 {
		warn("%d objects of other kinds were ignored", s.ignored)
	}
}

// exported returns the objects of a kind. A snapshot without any is no proof that the cluster has none.
func exported[T any](s *Snapshot, kind string, content T) facts.Source[T] {
	if !s.has(kind) {
		return facts.Unknown[T](fmt.Errorf("the snapshot contains no %s: they may not have been exported", kind))
	}
	return facts.Complete(content, "")
}

// addUnreadClaims adds the IPAMClaims of which it is unknown whether they exist: the files have none of their
// namespace, which may not have been exported.
func (s *Snapshot) addUnreadClaims() {
	has := map[string]bool{}
	for name := range s.claims {
		has[name.Namespace] = true
	}
	add := func(name *types.NamespacedName) {
		if name != nil && !has[name.Namespace] {
			s.claims[*name] = &ippool.Claim{NamespacedName: *name,
				Unread: "the snapshot contains none of namespace " + name.Namespace + ", and they may not have been exported"}
		}
	}
	for _, p := range s.pools {
		for i := range p.Allocations {
			add(p.Allocations[i].Claim)
		}
	}
	for _, r := range s.reservations {
		add(r.Claim)
	}
}

// withoutLeases warns of reports that no Lease confirms, so that nothing they say proves anything.
func (s *Snapshot) withoutLeases(leases map[string]*coordinationv1.Lease, warn func(format string, args ...any)) {
	var without, others []string
	for _, r := range s.observed.Reports.Or(nil) {
		switch lease := leases[r.Name]; {
		case lease == nil || lease.Spec.RenewTime == nil:
			without = append(without, r.Name)
		case r.ConfirmedAt.IsZero():
			others = append(others, r.Name)
		}
	}
	if len(without) > 0 {
		warn("the snapshot has no agent's Lease for the SandboxReports of %s, so these reports are not fresh: add "+
			"the Leases (kubectl get leases.coordination.k8s.io -A -o yaml)", facts.AtMost(without, namesShown))
	}
	if len(others) > 0 {
		warn("the Leases of %s are not of the same time as the SandboxReports, so these reports are not fresh: export both "+
			"in one command (kubectl get sandboxreports.ip-reconcile.dev,leases.coordination.k8s.io -A -o yaml)",
			facts.AtMost(others, namesShown))
	}
}

// namesShown is how many nodes a note names.
const namesShown = 5

// has reports whether the files have an object of a kind, or an empty list of it. Otherwise the kind may not have been
// exported. An empty List without a kind of its own is of the kind that its file or folder is named after.
func (s *Snapshot) has(kind string) bool { return s.seen[kind] }

// withoutPods warns of namespaces that have allocations or reservations and no pods: they may not have been exported.
func (s *Snapshot) withoutPods(warn func(format string, args ...any)) {
	if len(s.observed.Pods) == 0 {
		return // the snapshot has no pods at all, which is checked elsewhere
	}
	has, count := map[string]bool{"": true}, map[string]int{}
	for name := range s.observed.Pods {
		has[name.Namespace] = true
	}
	note := func(namespace string) {
		if !has[namespace] {
			count[namespace]++
		}
	}
	for _, p := range s.pools {
		for i := range p.Allocations {
			note(p.Allocations[i].Owner.Namespace)
		}
	}
	for _, r := range s.observed.Reservations.Or(nil) {
		note(r.Owner.Namespace)
	}
	s.observed.LackingPods = slices.Sorted(maps.Keys(count))
	for _, namespace := range s.observed.LackingPods {
		warn("the snapshot contains no pods of namespace %s, but %d allocations and reservations belong to it. "+
			"If that namespace was not exported, these verdicts are wrong: export it, too", namespace, count[namespace])
	}
}

// nodeLeases returns the agents' Leases by node. Their names are those of a Node or report, and they are outside
// kube-node-lease. Of several with one name one with the hash of a report counts, and the newest of those.
func (s *Snapshot) nodeLeases() map[string]*coordinationv1.Lease {
	found := map[string]*coordinationv1.Lease{}
	renewed := func(l *coordinationv1.Lease) time.Time { return cmp.Or(l.Spec.RenewTime, &metav1.MicroTime{}).Time }
	hasHash := func(l *coordinationv1.Lease) bool { return l.Annotations[v1alpha1.HashAnnotation] != "" }
	for _, l := range s.leases {
		isNode := s.reports[l.Name] != nil || s.nodes[l.Name] != nil
		if !isNode || l.Namespace == corev1.NamespaceNodeLease {
			continue
		}
		old := found[l.Name]
		if old == nil || hasHash(l) && !hasHash(old) || hasHash(l) == hasHash(old) && renewed(l).After(renewed(old)) {
			found[l.Name] = l
		}
	}
	return found
}

func sorted[V any](all map[string]V) []V {
	values := make([]V, 0, len(all))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		values = append(values, all[key])
	}
	return values
}

// List returns the snapshot as an observation.
func (s *Snapshot) List(context.Context) (*facts.Observation, error) {
	o := s.observed
	return &o, nil
}

// Relist returns what List returns: a snapshot does not change.
func (s *Snapshot) Relist(ctx context.Context, _ *facts.Observation) (*facts.Observation, error) {
	return s.List(ctx)
}

// GetLive returns no changed objects: a snapshot does not change.
func (s *Snapshot) GetLive(context.Context, *facts.Observation, facts.LiveKeys) (*facts.Live, error) {
	return &facts.Live{}, nil
}
