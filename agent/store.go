package agent

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// leaseSeconds is how long a renewal confirms the report.
const leaseSeconds = 60

// RestoreError means that etcd was restored since the agent's last write, which may be lost and must be repeated.
type RestoreError struct{ Reason string }

func (e *RestoreError) Error() string { return "etcd was restored: " + e.Reason }

// APIStore keeps the node's report and Lease at the API server. It is not safe for concurrent use.
type APIStore struct {
	// Now returns the time of the node's clock, for the Lease's renewTime; no rule reads it. The default is time.Now.
	Now func() time.Time
	// NewNonce returns the value of the annotation after a restore, another one each time. The default is random.
	NewNonce func() string

	node, namespace string

	report object[v1alpha1.SandboxReport]
	lease  object[coordinationv1.Lease]
	hash   string // hash of the last written report
	nonce  string // of the last restore that an agent on this node detected, "" for none
}

// NewAPIStore returns the store of a node's report. namespace is that of the Lease.
func NewAPIStore(config *rest.Config, node, namespace string) (*APIStore, error) {
	client, err := newClient(config)
	if err != nil {
		return nil, err
	}
	return &APIStore{
		node: node, namespace: namespace,
		report: object[v1alpha1.SandboxReport]{client: client, path: reportsPath, kind: "SandboxReport", name: node,
			verb: "write", field: "f:observedAt"},
		lease: object[coordinationv1.Lease]{client: client, path: leasesPath + namespace + "/leases", kind: "Lease",
			name: node, verb: "renew", field: "f:renewTime"},
	}, nil
}

const (
	reportsPath = "/apis/ip-reconcile.dev/v1alpha1/sandboxreports"
	leasesPath  = "/apis/coordination.k8s.io/v1/namespaces/"
	nodesPath   = "/api/v1/nodes"
)

// NodeIdentity reads the Identity in the Node object.
func (a *APIStore) NodeIdentity(ctx context.Context) (Identity, error) {
	n, err := (&object[corev1.Node]{client: a.report.client, path: nodesPath, kind: "Node", name: a.node}).get(ctx)
	if err != nil {
		return Identity{}, err
	}
	info := n.Status.NodeInfo
	machine := v1alpha1.Machine{SystemUUID: info.SystemUUID, MachineID: info.MachineID}
	return Identity{BootID: info.BootID, Machine: machine}, nil
}

// Load returns the report of an earlier agent on this node, nil for none. It must precede the first write.
func (a *APIStore) Load(ctx context.Context) (*v1alpha1.SandboxReport, error) {
	report, err := a.report.reread(ctx, func(*v1alpha1.SandboxReport, bool) error { return nil })
	if err != nil {
		return nil, err
	}
	lease, err := a.lease.reread(ctx, func(lease *coordinationv1.Lease, _ bool) error { return a.checkHolder(lease) })
	if err != nil {
		return nil, err
	}
	a.report.lastVersion, a.lease.lastVersion = a.report.version(), a.lease.version()
	if report != nil {
		a.nonce = podstate.ReadReport(report, lease).RestoreNonce
	} else if lease != nil {
		a.nonce = lease.Annotations[v1alpha1.RestoreAnnotation]
	}
	return report, nil
}

// checkHolder returns an error if the Lease belongs to another program, which may have one with a node's name.
func (a *APIStore) checkHolder(lease *coordinationv1.Lease) error {
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	if _, ours := lease.Annotations[v1alpha1.HashAnnotation]; ours || holder == "" || holder == a.node {
		return nil
	}
	return fmt.Errorf("another program holds Lease %s/%s, %q: "+
		"run the agents in a namespace of their own (--lease-namespace)",
		a.namespace, a.node, holder)
}

// Publish writes the report, then the Lease that confirms it. After a RestoreError the caller must make a new
// report and publish again. If the API server does not store the whole report, no Lease confirms it.
func (a *APIStore) Publish(ctx context.Context, report *v1alpha1.SandboxReport) error {
	stored, err := a.report.write(ctx, func(m metav1.ObjectMeta) *v1alpha1.SandboxReport {
		out := *report
		out.ObjectMeta = m
		out.Annotations = maps.Clone(m.Annotations)
		delete(out.Annotations, v1alpha1.RestoreAnnotation) // of an earlier version
		return &out
	}, func(_ *v1alpha1.SandboxReport, read bool) error { return a.noteRestore(a.report.advance(read)) })
	if apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "unknown field") {
		return fmt.Errorf("%w: the CustomResourceDefinition sandboxreports.ip-reconcile.dev is older than this agent: "+
			"apply it with kubectl apply --server-side --force-conflicts -f deploy/crds (or the chart's crds)", err)
	}
	if apierrors.IsRequestEntityTooLargeError(err) {
		return fmt.Errorf("%w: the report has %d bytes in JSON, %d sandboxes and %d attachments: run fewer pods on this node",
			err, sizeOf(report), len(report.Sandboxes), len(report.Attachments))
	}
	if err != nil {
		return err
	}
	hash := podstate.Hash(report)
	if podstate.Hash(stored) != hash {
		return fmt.Errorf("the API server stored a changed SandboxReport %s, which no Lease confirms", a.node)
	}
	a.hash = hash
	return a.Renew(ctx)
}

// Renew renews the Lease, which confirms the last report. After a RestoreError the caller must publish a new report.
func (a *APIStore) Renew(ctx context.Context) error {
	_, err := a.lease.write(ctx, func(m metav1.ObjectMeta) *coordinationv1.Lease {
		m.Annotations = a.leaseAnnotations(m.Annotations)
		return &coordinationv1.Lease{
			TypeMeta: leaseType(), ObjectMeta: m,
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &a.node, LeaseDurationSeconds: ptr.To[int32](leaseSeconds),
				RenewTime: ptr.To(metav1.NewMicroTime(now(a.Now))),
			},
		}
	}, func(lease *coordinationv1.Lease, read bool) error {
		if err := a.checkHolder(lease); err != nil {
			return err
		}
		return a.noteRestore(a.lease.advance(read))
	})
	return err
}

// IsOwn reports whether this agent wrote or has read a resourceVersion of the report; "" is a deletion.
func (a *APIStore) IsOwn(version string) bool {
	return version != "" && (version == a.report.meta.ResourceVersion || isOlder(version, a.report.meta.ResourceVersion))
}

// noteRestore draws a nonce if there is a reason, and returns a RestoreError. The Lease keeps the nonce until the next
// restore: who reads it knows which nonces he has answered.
func (a *APIStore) noteRestore(reason string) error {
	if reason == "" {
		return nil
	}
	// The same restore shows in both objects, and is noted once.
	a.report.lastVersion, a.lease.lastVersion = objectVersion{}, objectVersion{}
	if a.NewNonce != nil {
		a.nonce = a.NewNonce()
	} else {
		a.nonce = strings.ToLower(rand.Text()[:10])
	}
	return &RestoreError{reason}
}

// leaseAnnotations returns the annotations to write: those to keep, the hash of the report, and the nonce.
func (a *APIStore) leaseAnnotations(kept map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, kept)
	all[v1alpha1.HashAnnotation] = a.hash
	delete(all, v1alpha1.RestoreAnnotation)
	if a.nonce != "" {
		all[v1alpha1.RestoreAnnotation] = a.nonce
	}
	return all
}

const (
	// probeName is the name of a report that belongs to no node.
	probeName = "ip-reconcile-checks-its-admission-policy"
	// expectedRefusal is part of the message with which the policy refuses (deploy/agent/admission.yaml).
	expectedRefusal = "of its own node only"
)

// errPolicyNotEnforced means that an agent can write the report or the Lease of another node.
var errPolicyNotEnforced = errors.New("the admission policy ip-reconcile-agent is missing, not bound, for another " +
	"namespace, weakened, or does not deny; apply deploy/agent/admission.yaml (Kubernetes 1.30 or newer), or accept " +
	"this with --without-admission-policy")

// CheckPolicy returns nil if the admission policy refuses a report and a Lease of another node, in dry runs. It tries
// new ones, and if another node has a report, to change that and the Lease that confirms it.
func (a *APIStore) CheckPolicy(ctx context.Context) error {
	others, err := a.otherNodes(ctx)
	if err != nil {
		return fmt.Errorf("check the admission policy ip-reconcile-agent: %w", err)
	}
	report := &v1alpha1.SandboxReport{TypeMeta: reportType(), ObservedAt: apiTime(now(a.Now))}
	report.Name = probeName
	lease := &coordinationv1.Lease{TypeMeta: leaseType()}
	lease.Name = probeName
	for _, of := range []struct {
		kind, path string
		probe      any
	}{{"report", a.report.path, report}, {"Lease", a.lease.path, lease}} {
		body, err := json.Marshal(of.probe)
		if err != nil {
			return err
		}
		if err := refused(ctx, of.kind, a.report.client.Post().AbsPath(of.path).Body(body)); err != nil {
			return err
		}
		for _, other := range others {
			err := refused(ctx, of.kind, a.report.client.Patch(types.MergePatchType).AbsPath(of.path, other).
				Body([]byte(`{"metadata":{"annotations":{"ip-reconcile.dev/probe":"dry run"}}}`)))
			if isAbsent(err) {
				continue // it was deleted, or no Lease confirms it
			}
			if err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// refused returns nil if the policy refuses a dry run.
func refused(ctx context.Context, kind string, r *rest.Request) error {
	err := r.Param("dryRun", metav1.DryRunAll).Do(ctx).Error()
	switch {
	case err == nil:
		return fmt.Errorf("the API server lets this agent write the %s of another node: %w", kind, errPolicyNotEnforced)
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), expectedRefusal):
		return nil
	default:
		return fmt.Errorf("check the admission policy ip-reconcile-agent by a %s: %w", kind, err)
	}
}

// otherNodes returns the names of a few other nodes that have reports.
func (a *APIStore) otherNodes(ctx context.Context) (names []string, _ error) {
	text, err := a.report.client.Get().AbsPath(a.report.path).Param("limit", "10").
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("decode the list of reports: %w", err)
	}
	for i := range list.Items {
		if name := list.Items[i].Name; name != a.node {
			names = append(names, name)
		}
	}
	return names, nil
}

func leaseType() metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
}
