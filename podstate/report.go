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

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

const (
	// freshFor is how long a report may be relied upon after the last renewal of its Lease;
	// agents renew every 20 s.
	freshFor = 60 * time.Second
	// attachedFor is how long a container id in a CNI cache that the runtime
	// does not list may be one that is being set up: longer than the blind
	// window of containerd (5 min) and of CRI-O (12 min).
	attachedFor = 15 * time.Minute
	// settledAfter is the age up to which a sandbox without a pod may be one that
	// the API has not delivered yet.
	settledAfter = time.Minute
)

// Report is a node's SandboxReport with the evidence that it is current: its node's Lease.
type Report struct {
	*v1alpha1.SandboxReport
	// ConfirmedAt is when the Lease was last renewed for this content, by the API server's
	// clock; zero if it never was, or for other content.
	ConfirmedAt time.Time
	// LeaseRenewedAt is when the Lease was last renewed, for whatever content; zero if never.
	LeaseRenewedAt time.Time
	// LeaseVersion is the Lease's resourceVersion, "" without one.
	LeaseVersion string
	// WrittenAt is when the content was written, by the API server's clock.
	WrittenAt time.Time
	// RestoreDetectedAt is the agent's date of the last restore of etcd that it noticed, never
	// later than it was written by the API server's clock; zero if it noticed none.
	RestoreDetectedAt time.Time
	// RestoreNote is the text that says so: one that does not change is no news, however
	// it reads.
	RestoreNote string

	hash string // of the content
}

// IsFresh reports whether the report may be relied upon at this time.
func (r *Report) IsFresh(now time.Time) bool {
	return !r.ConfirmedAt.IsZero() && now.Sub(r.ConfirmedAt).Abs() <= freshFor
}

// ageReference is the time that ages in the report count to: the younger of now and
// when it was observed, so that neither a stale report nor a wrong clock makes
// anything appear older than it was when it was observed.
func (r *Report) ageReference(now time.Time) time.Time {
	if r.ObservedAt.Time.Before(now) {
		return r.ObservedAt.Time
	}
	return now
}

// IsEvidence reports whether an attachment is evidence: its network namespace is
// there, or it is young enough to be one that is being set up and is not known
// to be closed.
func (r *Report) IsEvidence(a *v1alpha1.Attachment, now time.Time) bool {
	if a.NetworkClosed != nil {
		return !*a.NetworkClosed
	}
	return r.ageReference(now).Sub(a.Since.Time) < attachedFor
}

// IsSettled reports whether a sandbox of the report is old enough that its pod should be
// known: by its node's clock, or, which a clock that is ahead cannot put off, because the
// report that has it was written long enough ago by the API server's.
func (r *Report) IsSettled(s *v1alpha1.Sandbox, now time.Time) bool {
	return r.ageReference(now).Sub(s.CreatedAt.Time) > settledAfter || !r.WrittenAt.IsZero() && now.Sub(r.WrittenAt) > settledAfter
}

// IsClosed reports whether a network namespace is known to be gone.
func IsClosed(networkClosed *bool) bool { return networkClosed != nil && *networkClosed }

// ParseAddress reads a report's address; ok is false where it is none.
func ParseAddress(a v1alpha1.Address) (netip.Addr, bool) {
	addr, err := parseAddr(a.IP)
	return addr, err == nil
}

// Hash identifies a report's content: everything but its metadata. The agent
// puts it on its Lease, which so confirms this content and no other.
func Hash(r *v1alpha1.SandboxReport) string {
	content := *r
	content.TypeMeta, content.ObjectMeta = metav1.TypeMeta{}, metav1.ObjectMeta{}
	text, err := json.Marshal(&content)
	if err != nil {
		return "" // matches no Lease: a report that cannot be hashed is not confirmed
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// ReadReport joins a report with its node's Lease (nil if there is none) as the
// API server knows them. The times come from managedFields: the server's own, unless a writer
// of the object sends others.
func ReadReport(o *v1alpha1.SandboxReport, lease *coordinationv1.Lease) *Report {
	return ReadReportWithHash(o, Hash(o), lease)
}

// ReadReportWithHash is ReadReport for a report whose Hash is known already.
func ReadReportWithHash(o *v1alpha1.SandboxReport, contentHash string, lease *coordinationv1.Lease) *Report {
	r := &Report{SandboxReport: o, WrittenAt: fieldTime(o.ManagedFields, `"f:observedAt"`), hash: contentHash}
	return r.WithLease(lease)
}

// WithLease is the same report with its node's Lease as it is now.
func (r *Report) WithLease(lease *coordinationv1.Lease) *Report {
	r = &Report{SandboxReport: r.SandboxReport, WrittenAt: r.WrittenAt, hash: r.hash}
	r.noteRestore(r.Annotations, r.WrittenAt, r.ManagedFields)
	if lease == nil {
		return r
	}
	r.LeaseRenewedAt, r.LeaseVersion = LeaseRenewTime(lease), lease.ResourceVersion
	if hash := lease.Annotations[v1alpha1.HashAnnotation]; hash != "" && hash == r.hash {
		r.ConfirmedAt = r.LeaseRenewedAt
	}
	r.noteRestore(lease.Annotations, r.LeaseRenewedAt, lease.ManagedFields)
	return r
}

// ReadSnapshotReport is ReadReport for objects in files, where managedFields
// are mostly stripped: the Lease counts by its renewTime only, and in a folder
// without any such Lease (leases false) the report's observedAt stands in.
func ReadSnapshotReport(o *v1alpha1.SandboxReport, lease *coordinationv1.Lease, leases bool) *Report {
	r := &Report{SandboxReport: o, WrittenAt: o.ObservedAt.Time}
	r.noteRestore(o.Annotations, r.WrittenAt, nil) // a node's clock is no limit
	switch {
	case lease != nil && lease.Spec.RenewTime != nil:
		r.ConfirmedAt = lease.Spec.RenewTime.Time
		r.noteRestore(lease.Annotations, r.ConfirmedAt, nil)
	case !leases:
		r.ConfirmedAt = o.ObservedAt.Time
	}
	r.LeaseRenewedAt = r.ConfirmedAt
	return r
}

// noteRestore reads the annotation. One that cannot be read still says that there was a
// restore, no later than the object was written. Nor was one noticed later than the API
// server wrote that it was, whatever it says.
func (r *Report) noteRestore(annotations map[string]string, written time.Time, fields []metav1.ManagedFieldsEntry) {
	text, there := annotations[v1alpha1.RestoreAnnotation]
	if !there {
		return
	}
	limit := fieldTime(fields, `"f:`+v1alpha1.RestoreAnnotation+`"`)
	if limit.IsZero() && len(fields) > 0 {
		limit = written
	}
	seen, err := time.Parse(time.RFC3339, text)
	switch {
	case err != nil:
		seen = written
	case !limit.IsZero() && seen.After(limit):
		seen = limit
	}
	if seen.After(r.RestoreDetectedAt) {
		r.RestoreDetectedAt, r.RestoreNote = seen, text
	}
}

// fieldTime is the newest time at which a manager wrote fields that include
// the given one.
func fieldTime(fields []metav1.ManagedFieldsEntry, field string) time.Time {
	var newest time.Time
	for _, f := range fields {
		if f.Time == nil || f.FieldsV1 == nil || !bytes.Contains(f.FieldsV1.GetRawBytes(), []byte(field)) {
			continue
		}
		if f.Time.After(newest) {
			newest = f.Time.Time
		}
	}
	return newest
}

// NeedsRewrite reports whether an entry has come of an age that matters since the report
// was observed: ages count to observedAt, so a report that does not change must
// still be rewritten for it.
func (r *Report) NeedsRewrite(now time.Time) bool {
	if !r.ObservedAt.Time.Before(now) {
		return false
	}
	later := *r.SandboxReport
	later.ObservedAt = metav1.NewTime(now)
	then := &Report{SandboxReport: &later}
	for i := range r.Sandboxes {
		if s := &r.Sandboxes[i]; s.State == v1alpha1.SandboxReady && r.IsSettled(s, now) != then.IsSettled(s, now) {
			return true
		}
	}
	for i := range r.Attachments {
		if a := &r.Attachments[i]; r.IsEvidence(a, now) != then.IsEvidence(a, now) {
			return true
		}
	}
	return false
}

// LeaseRenewTime is when an agent's Lease was last renewed, by the API server's clock;
// zero if that is not known.
func LeaseRenewTime(lease *coordinationv1.Lease) time.Time {
	return fieldTime(lease.ManagedFields, `"f:renewTime"`)
}
