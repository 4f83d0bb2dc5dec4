package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// leaseSeconds is for how long a renewal confirms the report.
const leaseSeconds = 60

// APIStore keeps the node's report and Lease at the API server. It is for one
// goroutine.
type APIStore struct {
	// Now is the node's clock; time.Now where it is nil. It is in the Lease's renewTime,
	// on which nothing relies.
	Now func() time.Time

	node, namespace string
	client          rest.Interface

	report metav1.ObjectMeta     // the report's, as last answered; no ResourceVersion: none is there
	hash   string                // of the report as it was last written
	lease  *coordinationv1.Lease // as last answered; no ResourceVersion: none is there
	// reportVersion and leaseVersion are the newest versions answered. An object that
	// vanished is recreated, and its resourceVersion must still be newer.
	reportVersion, leaseVersion objectVersion
	wrote                       []string   // the last resourceVersions of the report
	storedFields                fieldPaths // that the API server is known to store
	restoreNote                 string     // the annotation's value once etcd was restored, "" for none
}

// NewAPIStore makes the store of a node's report; namespace is that of the Lease.
func NewAPIStore(config *rest.Config, node, namespace string) (*APIStore, error) {
	config = rest.CopyConfig(config)
	config.Timeout = 10 * time.Second
	client, err := newClient(config)
	if err != nil {
		return nil, err
	}
	return &APIStore{node: node, namespace: namespace, client: client}, nil
}

// Load reads the report that an earlier agent on this node left; nil if there is
// none. It must be called before anything is written.
func (a *APIStore) Load(ctx context.Context) (*v1alpha1.SandboxReport, error) {
	report, err := a.readReport(ctx)
	if err != nil {
		return nil, err
	}
	lease, err := a.getLease(ctx)
	switch {
	case err == nil:
		if err := a.checkHolder(lease); err != nil {
			return nil, err
		}
		a.lease, a.leaseVersion = lease, versionOf(lease.ObjectMeta)
	case !apierrors.IsNotFound(err):
		return nil, err
	}
	if report != nil {
		a.reportVersion, a.wrote = versionOf(report.ObjectMeta), []string{report.ResourceVersion}
		a.restoreNote = restoreNoteText(podstate.ReadReport(report, a.lease).RestoreSeen)
	}
	return report, nil
}

// getReport reads the report as it is stored.
func (a *APIStore) getReport(ctx context.Context) (json.RawMessage, error) {
	var text json.RawMessage
	if err := doRequest(ctx, a.client.Get().AbsPath(reportsPath, a.node), &text); err != nil {
		return nil, fmt.Errorf("get SandboxReport %s: %w", a.node, err)
	}
	return text, nil
}

// readReport reads the report whole, and remembers its metadata.
func (a *APIStore) readReport(ctx context.Context) (*v1alpha1.SandboxReport, error) {
	text, err := a.getReport(ctx)
	if apierrors.IsNotFound(err) {
		a.report = metav1.ObjectMeta{}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var head metav1.PartialObjectMetadata
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("get SandboxReport %s: the answer cannot be read: %w", a.node, err)
	}
	report := &v1alpha1.SandboxReport{}
	if json.Unmarshal(text, report) != nil {
		// Someone, or a newer agent, wrote what this one does not understand: it is
		// written over.
		report = &v1alpha1.SandboxReport{ObjectMeta: head.ObjectMeta}
	}
	a.report = head.ObjectMeta
	return report, nil
}

// checkHolder returns an error if a Lease is not one that agents write. Any program may
// have a Lease by the name of a node in this namespace.
func (a *APIStore) checkHolder(lease *coordinationv1.Lease) error {
	holder := lease.Spec.HolderIdentity
	if _, ours := lease.Annotations[v1alpha1.HashAnnotation]; ours || holder == nil || *holder == "" || *holder == a.node {
		return nil
	}
	return fmt.Errorf("the Lease %s in namespace %s is held by %q, another program's: run the agents in a namespace of their own (--lease-namespace)", a.node, a.namespace, *holder)
}

// Publish writes the report and then the Lease that confirms it. A
// RestoreError means that the report must be recreated and published again; a
// DroppedError, that the API server does not store all of it, and there is no Lease
// that confirms what is left.
func (a *APIStore) Publish(ctx context.Context, report *v1alpha1.SandboxReport) error {
	for try := 1; ; try++ {
		err := a.writeReport(ctx, report)
		switch {
		case err == nil:
			if err := a.verifyStored(ctx, report); err != nil {
				return err
			}
			a.hash = podstate.Hash(report)
			return a.Renew(ctx)
		case try == 3:
			return fmt.Errorf("write SandboxReport %s: %w", a.node, err)
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
			if _, err := a.Intact(ctx, report); err != nil {
				return err
			}
		case apierrors.IsNotFound(err) && a.report.ResourceVersion != "":
			a.report.ResourceVersion = "" // someone deleted it, or a restore did: the answer to a new one shows which
		default:
			return fmt.Errorf("write SandboxReport %s: %w", a.node, err)
		}
	}
}

// Intact reads the report back and reports whether it is still what was written.
func (a *APIStore) Intact(ctx context.Context, report *v1alpha1.SandboxReport) (bool, error) {
	stored, err := a.readReport(ctx)
	if err != nil || stored == nil {
		return false, err
	}
	if err := a.advanceRead(ctx, &a.reportVersion, stored.ObjectMeta); err != nil {
		return false, err
	}
	return podstate.Hash(stored) == podstate.Hash(report) && stored.Annotations[v1alpha1.RestoreAnnotation] == a.restoreNote, nil
}

// writeReport creates or replaces the report. Only its metadata is answered, since the
// content is known.
func (a *APIStore) writeReport(ctx context.Context, report *v1alpha1.SandboxReport) error {
	out := *report
	out.ObjectMeta = keptMetadata(a.node, a.report)
	if a.RestoreNoteExpired() {
		a.restoreNote = ""
	}
	out.Annotations = a.withRestoreNote(out.Annotations)
	request := a.client.Put().AbsPath(reportsPath, a.node)
	if out.ResourceVersion == "" {
		request = a.client.Post().AbsPath(reportsPath)
	}
	var stored metav1.PartialObjectMetadata
	if err := sendObject(ctx, request.SetHeader("Accept", metadataOnly), &out, &stored); err != nil {
		return err
	}
	a.report = stored.ObjectMeta
	return a.advance(ctx, &a.reportVersion, stored.ObjectMeta)
}

// Renew renews the Lease, so that it confirms the report as it was last
// written. A RestoreError means that the report must be recreated and published.
func (a *APIStore) Renew(ctx context.Context) error {
	for try := 1; ; try++ {
		err := a.writeLease(ctx)
		switch {
		case err == nil:
			return nil
		case try == 3:
			return fmt.Errorf("renew Lease %s: %w", a.node, err)
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
			if err := a.rereadLease(ctx); err != nil {
				return err
			}
		case apierrors.IsNotFound(err) && a.lease != nil && a.lease.ResourceVersion != "":
			a.lease.ResourceVersion = ""
		default:
			return fmt.Errorf("renew Lease %s: %w", a.node, err)
		}
	}
}

func (a *APIStore) writeLease(ctx context.Context) error {
	out := &coordinationv1.Lease{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}}
	out.ObjectMeta = keptMetadata(a.node, metav1.ObjectMeta{})
	if a.lease != nil {
		out.ObjectMeta = keptMetadata(a.node, a.lease.ObjectMeta)
	}
	out.Annotations = a.withRestoreNote(withAnnotation(out.Annotations, v1alpha1.HashAnnotation, a.hash))
	out.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: &a.node, LeaseDurationSeconds: ptr.To[int32](leaseSeconds), RenewTime: ptr.To(metav1.NewMicroTime(now(a.Now))),
	}
	request := a.client.Put().AbsPath(leasesPath, a.namespace, "leases", a.node)
	if out.ResourceVersion == "" {
		request = a.client.Post().AbsPath(leasesPath, a.namespace, "leases")
	}
	stored := &coordinationv1.Lease{}
	if err := sendObject(ctx, request, out, stored); err != nil {
		return err
	}
	a.lease = stored
	return a.advance(ctx, &a.leaseVersion, stored.ObjectMeta)
}

func (a *APIStore) getLease(ctx context.Context) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	if err := doRequest(ctx, a.client.Get().AbsPath(leasesPath, a.namespace, "leases", a.node), lease); err != nil {
		return nil, fmt.Errorf("get Lease %s: %w", a.node, err)
	}
	return lease, nil
}

// rereadLease finds out why the Lease is not what was written last: by someone's
// hand, or by a restore.
func (a *APIStore) rereadLease(ctx context.Context) error {
	stored, err := a.getLease(ctx)
	if apierrors.IsNotFound(err) {
		a.lease = nil
		return nil
	}
	if err != nil {
		return err
	}
	if err := a.checkHolder(stored); err != nil {
		return err
	}
	a.lease = stored
	return a.advanceRead(ctx, &a.leaseVersion, stored.ObjectMeta)
}

// Wrote reports whether a resourceVersion of the report is one that was written or
// read here not long ago.
func (a *APIStore) Wrote(resourceVersion string) bool {
	return slices.Contains(a.wrote, resourceVersion)
}

// keptMetadata is what a write keeps of an object's metadata: what others may have set.
func keptMetadata(name string, m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, ResourceVersion: m.ResourceVersion, Labels: m.Labels, Annotations: m.Annotations,
		OwnerReferences: m.OwnerReferences, Finalizers: m.Finalizers,
	}
}

func withAnnotation(m map[string]string, key, value string) map[string]string {
	out := make(map[string]string, len(m)+1)
	for k, v := range m {
		out[k] = v
	}
	out[key] = value
	return out
}
