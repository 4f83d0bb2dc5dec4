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

// restoreToldFor is for how long an agent says that it noticed a restore: longer than
// a reconciler is away. After that a restore has long been settled, and a note that
// stays would be news to each reconciler that starts.
const restoreToldFor = 24 * time.Hour

// RestoreError: an answer showed that etcd was restored since this agent wrote
// last. What it had written may be lost, and must be rewritten.
type RestoreError struct{ Sign string }

func (e *RestoreError) Error() string { return "etcd was restored: " + e.Sign }

// isRestore reports whether an error says that etcd was restored.
func isRestore(err error) bool { return errors.As(err, new(*RestoreError)) }

// mark is a version of an object, and when the API server wrote it.
type mark struct {
	version string
	at      time.Time
}

// markOf is the mark of an object as it was answered. Its time is that of the newest
// write by anybody.
func markOf(m metav1.ObjectMeta) mark {
	newest := mark{version: m.ResourceVersion}
	for _, f := range m.ManagedFields {
		if f.Time != nil && f.Time.After(newest.at) {
			newest.at = f.Time.Time
		}
	}
	return newest
}

// forwards moves a mark on to what was answered, and returns a RestoreError where the
// resourceVersion ran backwards.
func (a *API) forwards(ctx context.Context, m *mark, answered metav1.ObjectMeta) error {
	before := *m
	*m = markOf(answered)
	if m == &a.reportMark {
		a.wrote = append(a.wrote[max(0, len(a.wrote)-7):], m.version)
	}
	if before.version == "" {
		return nil
	}
	if !older(m.version, before.version) {
		return nil
	}
	return a.lost(ctx, m, before, fmt.Sprintf("%s %s is at resourceVersion %s after %s", a.kind(m), a.node, m.version, before.version))
}

// clocksApart is by how much the clocks of two API servers may differ: the answer to a
// write may be lost, and that of the next come from the other one.
const clocksApart = 10 * time.Second

// readForwards is forwards for an object that was read and not written: its last write
// may not be of an earlier time either, where a restore has moved the versions on.
func (a *API) readForwards(ctx context.Context, m *mark, read metav1.ObjectMeta) error {
	before := *m
	if err := a.forwards(ctx, m, read); err != nil || before.version == "" {
		return err
	}
	if m.at.IsZero() || !m.at.Before(before.at.Add(-clocksApart)) {
		return nil
	}
	return a.lost(ctx, m, before, fmt.Sprintf("%s %s was last written at %s after it was written at %s",
		a.kind(m), a.node, m.at.UTC().Format(time.RFC3339), before.at.UTC().Format(time.RFC3339)))
}

// lost notes a restore, of which a write that was lost is the sign. It is dated to the
// last of this agent's writes that was lost: the backup is older than any of those, and
// whatever was written between the backup and the restore is lost, so that all reports
// that are of that time or later were written since the restore. A write that is still
// there may be of after it, as that of a report which just replaced one that the
// backup has: to date the restore later than that would have it count as of before.
func (a *API) lost(ctx context.Context, m *mark, before mark, sign string) error {
	at, other := before.at, a.leaseMark
	stored := a.storedLease
	if m == &a.leaseMark {
		other, stored = a.reportMark, a.storedReport
	}
	if other.at.After(at) {
		// An error leaves it at the write that is known to be lost.
		if now, err := stored(ctx); apierrors.IsNotFound(err) || err == nil && older(now, other.version) {
			at = other.at
		}
	}
	if at.IsZero() {
		at = now(a.Now)
	}
	// The same restore shows in both objects, and is noted once.
	a.reportMark, a.leaseMark, a.lease = mark{}, mark{}, nil
	a.restored = noteText(at)
	return &RestoreError{sign}
}

func (a *API) kind(m *mark) string {
	if m == &a.leaseMark {
		return "Lease"
	}
	return "SandboxReport"
}

// storedLease is the Lease's resourceVersion now.
func (a *API) storedLease(ctx context.Context) (string, error) {
	lease, err := a.getLease(ctx)
	if err != nil {
		return "", err
	}
	return lease.ResourceVersion, nil
}

// storedReport is the report's resourceVersion now.
func (a *API) storedReport(ctx context.Context) (string, error) {
	text, err := a.get(ctx)
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

func noteText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// Outdated reports whether the report still says that etcd was restored, and that was
// a day ago: the next write leaves it out.
func (a *API) Outdated() bool {
	noticed, err := time.Parse(time.RFC3339, a.restored)
	now := a.leaseMark.at
	if a.reportMark.at.After(now) {
		now = a.reportMark.at
	}
	return err == nil && now.Sub(noticed) > restoreToldFor
}

// noted are the annotations of the report or its Lease with what is to be said of a
// restore.
func (a *API) noted(annotations map[string]string) map[string]string {
	if a.restored != "" {
		return with(annotations, v1alpha1.RestoreAnnotation, a.restored)
	}
	annotations = maps.Clone(annotations)
	delete(annotations, v1alpha1.RestoreAnnotation)
	return annotations
}
