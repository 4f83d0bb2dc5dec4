package kube

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAnnotatedBy(t *testing.T) {
	early := metav1.NewTime(time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC))
	late := metav1.NewTime(early.Add(time.Hour))
	entry := func(manager string, at *metav1.Time, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Time: at, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const annotated = `{"f:metadata":{"f:annotations":{"f:ip-reconcile.dev/paused":{}}}}`
	for name, c := range map[string]struct {
		fields  []metav1.ManagedFieldsEntry
		program string
		at      time.Time
	}{
		"nothing":      {nil, "", time.Time{}},
		"another part": {[]metav1.ManagedFieldsEntry{entry("whereabouts", &late, `{"f:spec":{}}`)}, "", time.Time{}},
		"no time":      {[]metav1.ManagedFieldsEntry{entry("kubectl-annotate", nil, annotated)}, "", time.Time{}},
		"the newest": {[]metav1.ManagedFieldsEntry{entry("kubectl-annotate", &late, annotated),
			entry("kubectl-edit", &early, annotated)}, "kubectl-annotate", late.Time},
	} {
		if program, at := annotatedBy(c.fields, "ip-reconcile.dev/paused"); program != c.program || !at.Equal(c.at) {
			t.Errorf("%s: got %q at %s", name, program, at)
		}
	}
}
