package podstate

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

const (
	// freshFor is how long a report is fresh after a renewal of its Lease. Agents renew every 20 s.
	freshFor = 60 * time.Second
	// settledAfter is the age up to which the API may not have delivered the pod of a sandbox.
	settledAfter = time.Minute
)

// Report is a node's SandboxReport with the evidence from the node's Lease.
type Report struct {
	*v1alpha1.SandboxReport
	// ConfirmedAt is when the Lease was last renewed for this content, by the API server's clock; zero if never.
	ConfirmedAt time.Time
	// LeaseRenewedAt is when the Lease was last renewed for any content; zero if never.
	LeaseRenewedAt time.Time
	// LeaseVersion is the Lease's resourceVersion, "" without a Lease.
	LeaseVersion string
	// WrittenAt is when the content was written, by the API server's clock.
	WrittenAt time.Time
	// RestoreNonce is what the agent drew when it last detected a restore of etcd, "" for never. Agents of earlier
	// versions have a date there, which means no more.
	RestoreNonce string
	// IsLocal says that this process has inspected the node for this very observation.
	IsLocal bool

	hash     string // of the content
	isUnread bool   // it could not be decoded
}

// IsFresh reports whether the report is fresh at this time.
func (r *Report) IsFresh(now time.Time) bool {
	return !r.ConfirmedAt.IsZero() && now.Sub(r.ConfirmedAt).Abs() <= freshFor
}

// ageReference returns the time to which ages in the report count: the earlier of now and observedAt. So neither an
// expired report nor a wrong clock makes anything older than it was.
func (r *Report) ageReference(now time.Time) time.Time {
	if r.ObservedAt.Time.Before(now) {
		return r.ObservedAt.Time
	}
	return now
}

// IsSettled reports whether a sandbox is old enough for its pod to be known. Its age counts by the node's clock, or
// the report was written long enough ago by the API server's clock.
func (r *Report) IsSettled(s *v1alpha1.Sandbox, now time.Time) bool {
	return r.ageReference(now).Sub(s.CreatedAt.Time) > settledAfter ||
		!r.WrittenAt.IsZero() && now.Sub(r.WrittenAt) > settledAfter
}

// IsClosed reports whether a network namespace is known to be gone. One whose state is unknown may exist, however old
// what is known of it is.
func IsClosed(networkClosed *bool) bool { return networkClosed != nil && *networkClosed }

// ParseAddress parses an address of a report; ok is false if it is invalid.
func ParseAddress(a v1alpha1.Address) (netip.Addr, bool) {
	addr, err := parseAddr(a.IP)
	return addr, err == nil
}

// Hash identifies the content of a report, without its metadata. The agent writes it to its Lease, which confirms
// only this content.
func Hash(r *v1alpha1.SandboxReport) string {
	content := *r
	content.TypeMeta, content.ObjectMeta = metav1.TypeMeta{}, metav1.ObjectMeta{}
	text, err := json.Marshal(&content)
	if err != nil {
		return "" // matches no Lease, so the report is not confirmed
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// ReadReport combines a report with its node's Lease, nil for none. The times come from managedFields, which the
// API server writes unless a client sends others.
func ReadReport(o *v1alpha1.SandboxReport, lease *coordinationv1.Lease) *Report {
	return ReadReportWithHash(o, Hash(o), lease)
}

// ReadReportWithHash is ReadReport with a known Hash.
func ReadReportWithHash(o *v1alpha1.SandboxReport, contentHash string, lease *coordinationv1.Lease) *Report {
	r := &Report{SandboxReport: o, WrittenAt: FieldTime(o.ManagedFields, "f:observedAt"), hash: contentHash}
	return r.WithLease(lease)
}

// UnreadReport returns a report that cannot be decoded. It has no content and is never fresh: its node has to report.
func UnreadReport(node string, uid types.UID, version string) *Report {
	o := &v1alpha1.SandboxReport{}
	o.Name, o.UID, o.ResourceVersion = node, uid, version
	return &Report{SandboxReport: o, isUnread: true}
}

// IsUnread reports whether the report could not be decoded.
func (r *Report) IsUnread() bool { return r.isUnread }

// WithLease returns the same report with a new version of its Lease.
func (r *Report) WithLease(lease *coordinationv1.Lease) *Report {
	r = &Report{SandboxReport: r.SandboxReport, WrittenAt: r.WrittenAt, hash: r.hash, isUnread: r.isUnread}
	r.RestoreNonce = r.Annotations[v1alpha1.RestoreAnnotation]
	if lease == nil {
		return r
	}
	r.LeaseRenewedAt = LeaseRenewTime(lease)
	r.readLease(lease)
	r.confirm(lease)
	return r
}

// ReadSnapshotReport is ReadReport for files, in which managedFields are usually missing: the Lease counts by its
// renewTime, and the content was written at observedAt. A Lease with another hash does not confirm the content, as on a
// live cluster. A Lease whose annotations were not exported confirms what was observed before it was renewed.
func ReadSnapshotReport(o *v1alpha1.SandboxReport, lease *coordinationv1.Lease) *Report {
	r := &Report{SandboxReport: o, WrittenAt: o.ObservedAt.Time, hash: Hash(o)}
	r.RestoreNonce = r.Annotations[v1alpha1.RestoreAnnotation]
	if lease == nil {
		return r
	}
	r.readLease(lease)
	if lease.Spec.RenewTime != nil {
		r.LeaseRenewedAt = lease.Spec.RenewTime.Time
	}
	_, hasHash := lease.Annotations[v1alpha1.HashAnnotation]
	if hasHash {
		r.confirm(lease)
	} else if !r.LeaseRenewedAt.Before(r.WrittenAt) {
		r.ConfirmedAt = r.LeaseRenewedAt
	}
	return r
}

// readLease reads the Lease's version and its note of a restore. An agent of an earlier version notes a restore on its
// report, too, before it writes the Lease.
func (r *Report) readLease(lease *coordinationv1.Lease) {
	r.LeaseVersion = lease.ResourceVersion
	if nonce := lease.Annotations[v1alpha1.RestoreAnnotation]; nonce != "" {
		r.RestoreNonce = nonce
	}
}

// confirm sets ConfirmedAt if the Lease has the hash of the content.
func (r *Report) confirm(lease *coordinationv1.Lease) {
	if hash := lease.Annotations[v1alpha1.HashAnnotation]; hash != "" && hash == r.hash {
		r.ConfirmedAt = r.LeaseRenewedAt
	}
}

// FieldTime returns the newest time at which a manager wrote fields that include field, such as "f:observedAt".
func FieldTime(fields []metav1.ManagedFieldsEntry, field string) time.Time {
	var newest time.Time
	for _, f := range fields {
		if f.Time == nil || f.FieldsV1 == nil || !bytes.Contains(f.FieldsV1.GetRawBytes(), []byte(`"`+field+`"`)) {
			continue
		}
		if f.Time.After(newest) {
			newest = f.Time.Time
		}
	}
	return newest
}

// NeedsRewrite reports whether an age in the report has become significant since observedAt. Ages count to
// observedAt, so an otherwise unchanged report must be rewritten then.
func (r *Report) NeedsRewrite(now time.Time) bool {
	if !r.ObservedAt.Time.Before(now) {
		return false
	}
	copied := *r.SandboxReport
	copied.ObservedAt = metav1.NewTime(now)
	next := &Report{SandboxReport: &copied}
	for i := range r.Sandboxes {
		if s := &r.Sandboxes[i]; s.State == v1alpha1.SandboxReady && r.IsSettled(s, now) != next.IsSettled(s, now) {
			return true
		}
	}
	return false
}

// LeaseRenewTime returns when an agent's Lease was last renewed, by the API server's clock; zero if unknown.
func LeaseRenewTime(lease *coordinationv1.Lease) time.Time {
	return FieldTime(lease.ManagedFields, "f:renewTime")
}
