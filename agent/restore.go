package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// restoreNoteFor is for how long the report has the note of a restore: longer than
// a reconciler is away. After that a restore has long been settled, and a note that
// stays would be news to each reconciler that starts.
const restoreNoteFor = 24 * time.Hour

// RestoreError says that an answer showed that etcd was restored since this agent wrote
// last. What it had written may be lost, and must be rewritten.
type RestoreError struct{ Sign string }

func (e *RestoreError) Error() string { return "etcd was restored: " + e.Sign }

// isRestore reports whether an error is a RestoreError.
func isRestore(err error) bool { return errors.As(err, new(*RestoreError)) }

// objectVersion is a version of an object, and when the API server wrote it.
type objectVersion struct {
	resourceVersion string
	writtenAt       time.Time
}

// versionOf returns the version of an object as it was answered. Its time is that of the
// newest write by anybody.
func versionOf(m metav1.ObjectMeta) objectVersion {
	newest := objectVersion{resourceVersion: m.ResourceVersion}
	for _, f := range m.ManagedFields {
		if f.Time != nil && f.Time.After(newest.writtenAt) {
			newest.writtenAt = f.Time.Time
		}
	}
	return newest
}

// advance moves a version on to what was answered, and returns a RestoreError if the
// resourceVersion ran backwards.
func (a *APIStore) advance(ctx context.Context, m *objectVersion, answered metav1.ObjectMeta) error {
	before := *m
	*m = versionOf(answered)
	if m == &a.reportVersion {
		a.wrote = append(a.wrote[max(0, len(a.wrote)-7):], m.resourceVersion)
	}
	if before.resourceVersion == "" {
		return nil
	}
	if !older(m.resourceVersion, before.resourceVersion) {
		return nil
	}
	return a.recordRestore(ctx, m, before, fmt.Sprintf("%s %s is at resourceVersion %s after %s", a.kindOf(m), a.node, m.resourceVersion, before.resourceVersion))
}

// maxClockSkew is by how much the clocks of two API servers may differ: the answer to a
// write may be lost, and that of the next come from the other one.
const maxClockSkew = 10 * time.Second

// advanceRead is advance for an object that was read and not written: its last write
// may not be of an earlier time either, where a restore has moved the versions on.
func (a *APIStore) advanceRead(ctx context.Context, m *objectVersion, read metav1.ObjectMeta) error {
	before := *m
	if err := a.advance(ctx, m, read); err != nil || before.resourceVersion == "" {
		return err
	}
	if m.writtenAt.IsZero() || !m.writtenAt.Before(before.writtenAt.Add(-maxClockSkew)) {
		return nil
	}
	return a.recordRestore(ctx, m, before, fmt.Sprintf("%s %s was last written at %s after it was written at %s",
		a.kindOf(m), a.node, m.writtenAt.UTC().Format(time.RFC3339), before.writtenAt.UTC().Format(time.RFC3339)))
}

// recordRestore notes a restore, of which a write that was lost is the sign. It is dated to the
// last of this agent's writes that was lost: the backup is older than any of those, and
// whatever was written between the backup and the restore is lost, so that all reports
// that are of that time or later were written since the restore. A write that is still
// there may be of after it, as that of a report which just replaced one that the
// backup has: to date the restore later than that would have it count as of before.
func (a *APIStore) recordRestore(ctx context.Context, m *objectVersion, before objectVersion, sign string) error {
	at, other := before.writtenAt, a.leaseVersion
	stored := a.leaseResourceVersion
	if m == &a.leaseVersion {
		other, stored = a.reportVersion, a.reportResourceVersion
	}
	if other.writtenAt.After(at) {
		// An error leaves it at the write that is known to be lost.
		if now, err := stored(ctx); apierrors.IsNotFound(err) || err == nil && older(now, other.resourceVersion) {
			at = other.writtenAt
		}
	}
	if at.IsZero() {
		at = now(a.Now)
	}
	// The same restore shows in both objects, and is noted once.
	a.reportVersion, a.leaseVersion, a.lease = objectVersion{}, objectVersion{}, nil
	a.restoreNote = restoreNoteText(at)
	return &RestoreError{sign}
}

func (a *APIStore) kindOf(m *objectVersion) string {
	if m == &a.leaseVersion {
		return "Lease"
	}
	return "SandboxReport"
}

// leaseResourceVersion is the Lease's resourceVersion now.
func (a *APIStore) leaseResourceVersion(ctx context.Context) (string, error) {
	lease, err := a.getLease(ctx)
	if err != nil {
		return "", err
	}
	return lease.ResourceVersion, nil
}

// reportResourceVersion is the report's resourceVersion now.
func (a *APIStore) reportResourceVersion(ctx context.Context) (string, error) {
	text, err := a.getReport(ctx)
	if err != nil {
		return "", err
	}
	var head metav1.PartialObjectMetadata
	err = json.Unmarshal(text, &head)
	return head.ResourceVersion, err
}

func older(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}

func restoreNoteText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// RestoreNoteExpired reports whether the report still says that etcd was restored, and that was
// a day ago: the next write leaves it out.
func (a *APIStore) RestoreNoteExpired() bool {
	noticed, err := time.Parse(time.RFC3339, a.restoreNote)
	now := a.leaseVersion.writtenAt
	if a.reportVersion.writtenAt.After(now) {
		now = a.reportVersion.writtenAt
	}
	return err == nil && now.Sub(noticed) > restoreNoteFor
}

// withRestoreNote are the annotations of the report or its Lease with what is to be said of a
// restore.
func (a *APIStore) withRestoreNote(annotations map[string]string) map[string]string {
	if a.restoreNote != "" {
		return withAnnotation(annotations, v1alpha1.RestoreAnnotation, a.restoreNote)
	}
	annotations = maps.Clone(annotations)
	delete(annotations, v1alpha1.RestoreAnnotation)
	return annotations
}
