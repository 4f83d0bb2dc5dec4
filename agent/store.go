package agent

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

const (
	// leaseSeconds is for how long a renewal confirms the report.
	leaseSeconds = 60
	// restoreNoteFor is for how long the report has the note of a restore: longer than
	// a reconciler is away. After that a restore has long been settled, and a note that
	// stays would be news to each reconciler that starts.
	restoreNoteFor = 24 * time.Hour
)

// RestoreError says that an answer showed that etcd was restored since this agent wrote
// last. What it had written may be lost, and must be rewritten.
type RestoreError struct{ Sign string }

func (e *RestoreError) Error() string { return "etcd was restored: " + e.Sign }

// APIStore keeps the node's report and Lease at the API server. It is for one
// goroutine.
type APIStore struct {
	// Now is the node's clock; time.Now where it is nil. It is in the Lease's renewTime,
	// on which nothing relies.
	Now func() time.Time

	node, namespace string

	report      object[v1alpha1.SandboxReport]
	lease       object[coordinationv1.Lease]
	hash        string // of the report as it was last written
	restoreNote string // the annotation's value once etcd was restored, "" for none
}

// NewAPIStore makes the store of a node's report; namespace is that of the Lease.
func NewAPIStore(config *rest.Config, node, namespace string) (*APIStore, error) {
	client, err := newClient(config)
	if err != nil {
		return nil, err
	}
	return &APIStore{
		node: node, namespace: namespace,
		report: object[v1alpha1.SandboxReport]{client: client, path: reportsPath, kind: "SandboxReport", name: node, verb: "write"},
		lease:  object[coordinationv1.Lease]{client: client, path: leasesPath + namespace + "/leases", kind: "Lease", name: node, verb: "renew"},
	}, nil
}

const (
	reportsPath = "/apis/ip-reconcile.dev/v1alpha1/sandboxreports"
	leasesPath  = "/apis/coordination.k8s.io/v1/namespaces/"
	nodesPath   = "/api/v1/nodes"
)

// NodeIdentity reads from a Node object which machine it is.
func NodeIdentity(ctx context.Context, config *rest.Config, node string) (Identity, error) {
	client, err := newClient(config)
	if err != nil {
		return Identity{}, err
	}
	n, err := (&object[corev1.Node]{client: client, path: nodesPath, kind: "Node", name: node}).get(ctx)
	if err != nil {
		return Identity{}, err
	}
	info := n.Status.NodeInfo
	return Identity{BootID: info.BootID, Machine: v1alpha1.Machine{SystemUUID: info.SystemUUID, MachineID: info.MachineID}}, nil
}

// Load reads the report that an earlier agent on this node left; nil if there is
// none. It must be called before anything is written.
func (a *APIStore) Load(ctx context.Context) (*v1alpha1.SandboxReport, error) {
	report, err := a.report.reread(ctx, func(*v1alpha1.SandboxReport, bool) error { return nil })
	if err != nil {
		return nil, err
	}
	lease, err := a.lease.reread(ctx, func(lease *coordinationv1.Lease, _ bool) error { return a.checkHolder(lease) })
	if err != nil {
		return nil, err
	}
	a.report.newest, a.lease.newest = versionOf(a.report.meta), versionOf(a.lease.meta)
	if report != nil {
		if seen := podstate.ReadReport(report, lease).RestoreDetectedAt; !seen.IsZero() {
			a.restoreNote = seen.UTC().Format(time.RFC3339)
		}
	}
	return report, nil
}

// checkHolder returns an error if a Lease is not one that agents write. Any program may
// have a Lease by the name of a node in this namespace.
func (a *APIStore) checkHolder(lease *coordinationv1.Lease) error {
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	if _, ours := lease.Annotations[v1alpha1.HashAnnotation]; ours || holder == "" || holder == a.node {
		return nil
	}
	return fmt.Errorf("the Lease %s in namespace %s is held by %q, another program's: run the agents in a namespace of their own (--lease-namespace)", a.node, a.namespace, holder)
}

// Publish writes the report and then the Lease that confirms it. A
// RestoreError means that the report must be recreated and published again. Where the API
// server does not store all of the report, no Lease confirms what it stores.
func (a *APIStore) Publish(ctx context.Context, report *v1alpha1.SandboxReport) error {
	if a.RestoreNoteExpired() {
		a.restoreNote = ""
	}
	stored, err := a.report.write(ctx, func(m metav1.ObjectMeta) *v1alpha1.SandboxReport {
		out := *report
		out.ObjectMeta = m
		out.Annotations = a.annotations(m.Annotations)
		return &out
	}, a.checkReport(ctx))
	if apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "unknown field") {
		return fmt.Errorf("%w: the CustomResourceDefinition sandboxreports.ip-reconcile.dev is older than this agent (Helm never upgrades one); "+
			"apply the one of this version (kubectl apply --server-side --force-conflicts -f deploy/crds, or the crds folder of the chart)", err)
	}
	if err != nil {
		return err
	}
	hash := podstate.Hash(report)
	if podstate.Hash(stored) != hash {
		return fmt.Errorf("the API server stored SandboxReport %s otherwise than it was written: nothing can confirm it", a.node)
	}
	a.hash = hash
	return a.Renew(ctx)
}

// Renew renews the Lease, so that it confirms the report as it was last
// written. A RestoreError means that the report must be recreated and published.
func (a *APIStore) Renew(ctx context.Context) error {
	_, err := a.lease.write(ctx, func(m metav1.ObjectMeta) *coordinationv1.Lease {
		m.Annotations = a.annotations(m.Annotations)
		m.Annotations[v1alpha1.HashAnnotation] = a.hash
		return &coordinationv1.Lease{
			TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}, ObjectMeta: m,
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &a.node, LeaseDurationSeconds: ptr.To[int32](leaseSeconds), RenewTime: ptr.To(metav1.NewMicroTime(now(a.Now))),
			},
		}
	}, func(lease *coordinationv1.Lease, read bool) error {
		if err := a.checkHolder(lease); err != nil {
			return err
		}
		before, sign := a.lease.advance(read)
		return a.noteRestore(ctx, before, sign, a.report.lostAfter)
	})
	return err
}

// IsOwn reports whether a change of the report, to this resourceVersion ("" where it is not there any more), is one
// that this agent wrote, or has read since.
func (a *APIStore) IsOwn(version string) bool {
	return version != "" && (version == a.report.meta.ResourceVersion || older(version, a.report.meta.ResourceVersion))
}

func (a *APIStore) checkReport(ctx context.Context) func(*v1alpha1.SandboxReport, bool) error {
	return func(_ *v1alpha1.SandboxReport, read bool) error {
		before, sign := a.report.advance(read)
		return a.noteRestore(ctx, before, sign, a.lease.lostAfter)
	}
}

// noteRestore notes a restore, of which a write that was lost is the sign. It is dated to the
// last of this agent's writes that was lost: the backup is older than any of those, and
// whatever was written between the backup and the restore is lost, so that all reports
// that are of that time or later were written since the restore. A write that is still
// there may be of after it, as that of a report which just replaced one that the
// backup has: to date the restore later than that would have it count as of before.
func (a *APIStore) noteRestore(ctx context.Context, before objectVersion, sign string, otherLostAfter func(context.Context, time.Time) time.Time) error {
	if sign == "" {
		return nil
	}
	at := otherLostAfter(ctx, before.writtenAt)
	if at.IsZero() {
		at = now(a.Now)
	}
	// The same restore shows in both objects, and is noted once.
	a.report.newest, a.lease.newest = objectVersion{}, objectVersion{}
	a.restoreNote = at.UTC().Format(time.RFC3339)
	return &RestoreError{sign}
}

// RestoreNoteExpired reports whether the report still says that etcd was restored, and that was
// a day ago: the next write leaves it out.
func (a *APIStore) RestoreNoteExpired() bool {
	noticed, err := time.Parse(time.RFC3339, a.restoreNote)
	now := a.lease.newest.writtenAt
	if a.report.newest.writtenAt.After(now) {
		now = a.report.newest.writtenAt
	}
	return err == nil && now.Sub(noticed) > restoreNoteFor
}

// annotations are those of the report or its Lease with what is to be said of a restore.
func (a *APIStore) annotations(kept map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, kept)
	delete(all, v1alpha1.RestoreAnnotation)
	if a.restoreNote != "" {
		all[v1alpha1.RestoreAnnotation] = a.restoreNote
	}
	return all
}
