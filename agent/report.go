package agent

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

const (
	// goneFor is how long an id stays among the gone ones, and goneMax how many
	// of them there are: longer than a reconciler is away, and bounded.
	goneFor = 24 * time.Hour
	maxGone = 500
	// maxAttachments bounds what lost DELs leave in the caches. Beyond it the
	// oldest are left out that are evidence of nothing but the node.
	maxAttachments = 1000
)

// Next returns the report that follows from an inspection and the report before (nil if
// there is none), which may be one of an earlier agent on this machine, and is that
// same report where nothing in it changes.
func Next(before *v1alpha1.SandboxReport, inspection *Inspection) *v1alpha1.SandboxReport {
	if before == nil {
		before = &v1alpha1.SandboxReport{}
	}
	next := &v1alpha1.SandboxReport{
		TypeMeta:   reportType(),
		ObjectMeta: before.ObjectMeta,
		BootID:     inspection.BootID,
		Machine:    inspection.Machine,
		Runtime:    inspection.Runtime,
		ObservedAt: apiTime(inspection.At),
		Gone:       goneIDs(before, inspection),
	}
	for i := range inspection.Sandboxes {
		if s := &inspection.Sandboxes[i]; !s.Irrelevant {
			next.Sandboxes = append(next.Sandboxes, s.Sandbox)
		}
	}
	next.Attachments = dropOldest(inspection.Attachments, next.ObservedAt.Time)
	next.Summary = summarize(next)
	if sameContent(before, next) && !(&podstate.Report{SandboxReport: before}).NeedsRewrite(next.ObservedAt.Time) {
		return before
	}
	// Only a report that is written anyway is cleared of what is long gone.
	next.Gone = slices.DeleteFunc(next.Gone, func(g v1alpha1.Gone) bool { return inspection.At.Sub(g.Since.Time) > goneFor })
	if over := len(next.Gone) - maxGone; over > 0 {
		slices.SortStableFunc(next.Gone, func(a, b v1alpha1.Gone) int { return a.Since.Compare(b.Since.Time) })
		next.Gone = slices.Delete(next.Gone, 0, over)
	}
	slices.SortFunc(next.Gone, func(a, b v1alpha1.Gone) int { return cmp.Compare(a.ID, b.ID) })
	return next
}

// goneIDs are the ids that were listed or attached and are in the inspection no more, with
// those that were gone before. A sandbox whose network was not known to be closed
// is gone only where that is known now: a runtime that lost its state, and caches
// that were emptied, do not end what runs. An attachment whose network was never
// known to be closed is not gone: it only cannot be seen any more.
func goneIDs(before *v1alpha1.SandboxReport, inspection *Inspection) []v1alpha1.Gone {
	seen := make(map[string]bool, len(inspection.Sandboxes)+len(inspection.Attachments))
	for i := range inspection.Sandboxes {
		seen[inspection.Sandboxes[i].ID] = true
	}
	for i := range inspection.Attachments {
		seen[inspection.Attachments[i].ID] = true
	}
	rebooted := before.BootID != "" && inspection.BootID != "" && before.BootID != inspection.BootID && before.Machine.Same(inspection.Machine)
	var all []v1alpha1.Gone
	add := func(g v1alpha1.Gone) {
		if !seen[g.ID] {
			seen[g.ID] = true
			all = append(all, g)
		}
	}
	for i := range before.Sandboxes {
		s := &before.Sandboxes[i]
		if podstate.IsClosed(s.NetworkClosed) || rebooted || inspection.Closed[s.ID] {
			add(v1alpha1.Gone{ID: s.ID, UID: s.UID, Since: apiTime(inspection.At)})
		}
	}
	for i := range before.Attachments {
		if a := &before.Attachments[i]; podstate.IsClosed(a.NetworkClosed) || rebooted || inspection.Closed[a.ID] {
			add(v1alpha1.Gone{ID: a.ID, UID: a.UID, Since: apiTime(inspection.At)})
		}
	}
	for _, g := range before.Gone {
		add(g)
	}
	slices.SortFunc(all, func(a, b v1alpha1.Gone) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// dropOldest leaves out the oldest attachments that are no evidence, where there are
// too many: what is known to be closed, and what nothing is known of for long.
func dropOldest(attachments []v1alpha1.Attachment, observed time.Time) []v1alpha1.Attachment {
	over := len(attachments) - maxAttachments
	if over <= 0 {
		return attachments
	}
	seen := &podstate.Report{SandboxReport: &v1alpha1.SandboxReport{ObservedAt: metav1.NewTime(observed)}}
	var idle []v1alpha1.Attachment
	for _, a := range attachments {
		if !seen.IsEvidence(&a, observed) {
			idle = append(idle, a)
		}
	}
	first := func(a v1alpha1.Attachment) int {
		if podstate.IsClosed(a.NetworkClosed) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(idle, func(a, b v1alpha1.Attachment) int {
		return cmp.Or(cmp.Compare(first(a), first(b)), a.Since.Compare(b.Since.Time))
	})
	out := map[string]bool{}
	for _, a := range idle[:min(over, len(idle))] {
		out[a.ID] = true
	}
	return slices.DeleteFunc(slices.Clone(attachments), func(a v1alpha1.Attachment) bool { return out[a.ID] })
}

func summarize(r *v1alpha1.SandboxReport) v1alpha1.Summary {
	s := v1alpha1.Summary{Sandboxes: int32(len(r.Sandboxes)), Attachments: int32(len(r.Attachments))}
	for i := range r.Sandboxes {
		if r.Sandboxes[i].State == v1alpha1.SandboxNotReady {
			s.NotReady++
		}
	}
	return s
}

// sameContent reports whether two reports say the same, whoever keeps them and whenever it
// was observed.
func sameContent(a, b *v1alpha1.SandboxReport) bool {
	x := *a
	x.TypeMeta, x.ObjectMeta, x.ObservedAt = b.TypeMeta, b.ObjectMeta, b.ObservedAt
	return equality.Semantic.DeepEqual(&x, b)
}

func reportType() metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: v1alpha1.Resource().GroupVersion().String(), Kind: "SandboxReport"}
}
