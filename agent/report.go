package agent

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/agent/cnicache"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

const (
	// goneRetention is how long an id stays in Gone, longer than an outage of a reconciler; maxGone limits the ids.
	goneRetention = 24 * time.Hour
	maxGone       = 500
	// maxAttachments limits the attachments that lost DELs leave in the caches. Beyond it, the oldest whose networks are
	// closed are dropped.
	maxAttachments = 1000
	// maxReportBytes is the most bytes of JSON of a report whose sandboxes have all of their addresses. The admission
	// policy denies more than 768 KiB, of a text that has a space after each comma and colon. 500 ordinary pods have less.
	maxReportBytes = 640 << 10
	// maxSandboxes is the most sandboxes that the CustomResourceDefinition accepts.
	maxSandboxes = 4000
)

// NextReport returns the report that follows before (nil for none) after an inspection. If nothing changed, it
// returns before. The report before may be from an earlier agent on this machine.
func NextReport(before *v1alpha1.SandboxReport, inspection *Inspection) *v1alpha1.SandboxReport {
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
		if s := &inspection.Sandboxes[i]; !s.IsIrrelevant {
			next.Sandboxes = append(next.Sandboxes, s.Sandbox)
		}
	}
	next.Attachments = dropOldestClosed(withEnds(inspection.Attachments, before, inspection))
	dropEnded(next, inspection)
	fitReport(next)
	next.Summary = summarize(next)
	if sameContent(before, next) && !(&podstate.Report{SandboxReport: before}).NeedsRewrite(next.ObservedAt.Time) {
		return before
	}
	// Expiry of gone ids alone is no reason to write a report.
	next.Gone = slices.DeleteFunc(next.Gone, func(g v1alpha1.Gone) bool {
		return inspection.At.Sub(g.Since.Time) > goneRetention
	})
	if over := len(next.Gone) - maxGone; over > 0 {
		slices.SortStableFunc(next.Gone, func(a, b v1alpha1.Gone) int { return a.Since.Compare(b.Since.Time) })
		next.Gone = slices.Delete(next.Gone, 0, over)
	}
	slices.SortFunc(next.Gone, func(a, b v1alpha1.Gone) int { return cmp.Compare(a.ID, b.ID) })
	return next
}

// goneIDs returns the ids that ended since the report before, and those that were gone in it. A sandbox ends when
// its network is known to be closed, or by a reboot. A runtime that lost its state, or emptied caches, end nothing.
// An attachment whose network state was never known is not gone, only invisible.
func goneIDs(before *v1alpha1.SandboxReport, inspection *Inspection) []v1alpha1.Gone {
	inspected := make(map[string]bool, len(inspection.Sandboxes)+len(inspection.Attachments))
	for i := range inspection.Sandboxes {
		inspected[inspection.Sandboxes[i].ID] = true
	}
	for i := range inspection.Attachments {
		inspected[inspection.Attachments[i].ID] = true
	}
	rebooted := hasRebooted(before, inspection)
	var all []v1alpha1.Gone
	add := func(g v1alpha1.Gone) {
		if !inspected[g.ID] {
			inspected[g.ID] = true
			all = append(all, g)
		}
	}
	for i := range before.Sandboxes {
		s := &before.Sandboxes[i]
		if podstate.IsClosed(s.NetworkClosed) || rebooted || inspection.NamespaceGone[s.ID] {
			add(v1alpha1.Gone{ID: s.ID, UID: s.UID, Since: apiTime(inspection.At)})
		}
	}
	for i := range before.Attachments {
		if a := &before.Attachments[i]; podstate.IsClosed(a.NetworkClosed) || rebooted || inspection.NamespaceGone[a.ID] {
			add(v1alpha1.Gone{ID: a.ID, UID: a.UID, Since: apiTime(inspection.At)})
		}
	}
	for _, g := range before.Gone {
		add(g)
	}
	slices.SortFunc(all, func(a, b v1alpha1.Gone) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// hasRebooted reports whether this machine certainly booted since the report before.
func hasRebooted(before *v1alpha1.SandboxReport, inspection *Inspection) bool {
	return before.BootID != "" && inspection.BootID != "" && before.BootID != inspection.BootID &&
		before.Machine.Same(inspection.Machine)
}

// withEnds returns the attachments with the ends that the report before proves. A network whose state is unknown now
// has ended if it was closed before, or if this machine booted since the report before had its id: no network outlives
// a boot, and no id returns. Without this, a CNI cache file that names no network namespace would count for ever.
func withEnds(attachments []v1alpha1.Attachment, before *v1alpha1.SandboxReport, inspection *Inspection,
) []v1alpha1.Attachment {
	if !before.Machine.Same(inspection.Machine) {
		return attachments
	}
	rebooted, hasEnded := hasRebooted(before, inspection), map[string]bool{}
	for i := range before.Sandboxes {
		hasEnded[before.Sandboxes[i].ID] = rebooted
	}
	for i := range before.Attachments {
		hasEnded[before.Attachments[i].ID] = rebooted || podstate.IsClosed(before.Attachments[i].NetworkClosed)
	}
	closed := true
	attachments = slices.Clone(attachments)
	for i := range attachments {
		if a := &attachments[i]; a.NetworkClosed == nil && hasEnded[a.ID] {
			a.NetworkClosed = &closed
		}
	}
	return attachments
}

// dropOldestClosed drops the oldest attachments whose networks are closed if there are too many. Others may be in use.
func dropOldestClosed(attachments []v1alpha1.Attachment) []v1alpha1.Attachment {
	over := len(attachments) - maxAttachments
	if over <= 0 {
		return attachments
	}
	var closed []v1alpha1.Attachment
	for _, a := range attachments {
		if podstate.IsClosed(a.NetworkClosed) {
			closed = append(closed, a)
		}
	}
	slices.SortStableFunc(closed, func(a, b v1alpha1.Attachment) int { return a.Since.Compare(b.Since.Time) })
	isDropped := map[string]bool{}
	for _, a := range closed[:min(over, len(closed))] {
		isDropped[a.ID] = true
	}
	return slices.DeleteFunc(slices.Clone(attachments), func(a v1alpha1.Attachment) bool { return isDropped[a.ID] })
}

// endedEntry is a sandbox or an attachment that may be left out of a report.
type endedEntry struct {
	id    string
	since metav1.Time // creation of the sandbox, or appearance of the attachment
	bytes int         // in the JSON of the list
}

// dropEnded leaves out the oldest sandboxes and attachments that have ended, until the report has at most
// maxReportBytes and maxSandboxes. Finished pods that nobody deletes leave thousands of sandboxes. The ids are then
// absent instead of stopped, so their addresses are released later. What may still run is never left out.
func dropEnded(r *v1alpha1.SandboxReport, inspection *Inspection) {
	over, sandboxesOver := sizeOf(r)-maxReportBytes, len(r.Sandboxes)-maxSandboxes
	if over <= 0 && sandboxesOver <= 0 {
		return
	}
	var sandboxes, all []endedEntry
	for i := range r.Sandboxes {
		if s := &r.Sandboxes[i]; s.State == v1alpha1.SandboxNotReady && podstate.IsClosed(s.NetworkClosed) {
			sandboxes = append(sandboxes, endedEntry{s.ID, s.CreatedAt, itemBytes(s)})
		}
	}
	all = slices.Clone(sandboxes)
	// An end that only the report before proves would be forgotten with the entry.
	isClosed := map[string]bool{}
	for i := range inspection.Attachments {
		isClosed[inspection.Attachments[i].ID] = podstate.IsClosed(inspection.Attachments[i].NetworkClosed)
	}
	for i := range r.Attachments {
		if a := &r.Attachments[i]; isClosed[a.ID] {
			all = append(all, endedEntry{a.ID, a.Since, itemBytes(a)})
		}
	}
	isDropped := map[string]bool{}
	sortOldestFirst(sandboxes)
	for _, e := range sandboxes[:min(max(sandboxesOver, 0), len(sandboxes))] {
		isDropped[e.id] = true
		over -= e.bytes
	}
	sortOldestFirst(all)
	for _, e := range all {
		if over <= 0 {
			break
		}
		if !isDropped[e.id] {
			isDropped[e.id] = true
			over -= e.bytes
		}
	}
	r.Sandboxes = slices.DeleteFunc(r.Sandboxes, func(s v1alpha1.Sandbox) bool { return isDropped[s.ID] })
	r.Attachments = slices.DeleteFunc(slices.Clone(r.Attachments),
		func(a v1alpha1.Attachment) bool { return isDropped[a.ID] })
}

func sortOldestFirst(entries []endedEntry) {
	slices.SortFunc(entries, func(a, b endedEntry) int {
		return cmp.Or(a.since.Compare(b.since.Time), cmp.Compare(a.id, b.id))
	})
}

// itemBytes returns the bytes that an item has in the JSON of a list.
func itemBytes(item any) int {
	text, _ := json.Marshal(item) // it has no field without JSON
	return len(text) + len(",")
}

// fitReport leaves out addresses until a report has at most maxReportBytes. The sandboxes and attachments with the
// largest entries lose theirs first, so a tenant whose pods have many cannot keep its node from reporting. A report of
// about 1,000 sandboxes and attachments that may still run is too large even without addresses: the API server then
// denies it.
func fitReport(r *v1alpha1.SandboxReport) {
	if sizeOf(r) <= maxReportBytes {
		return
	}
	sandboxes, attachments := r.Sandboxes, r.Attachments
	for limit := cnicache.MaxBytes / 2; ; limit /= 2 {
		r.Sandboxes, r.Attachments = slices.Clone(sandboxes), slices.Clone(attachments)
		for i := range r.Sandboxes {
			cnicache.Fit(&r.Sandboxes[i], limit)
		}
		for i := range r.Attachments {
			a := &r.Attachments[i]
			s := v1alpha1.Sandbox{Addresses: a.Addresses, AddressesUnread: a.AddressesUnread, MayCarry: a.MayCarry}
			cnicache.Fit(&s, limit)
			a.Addresses, a.AddressesUnread, a.MayCarry = s.Addresses, s.AddressesUnread, s.MayCarry
		}
		if limit == 0 || sizeOf(r) <= maxReportBytes {
			return
		}
	}
}

// sizeOf returns the bytes of a report in JSON.
func sizeOf(r *v1alpha1.SandboxReport) int {
	text, _ := json.Marshal(r) // it has no field without JSON
	return len(text)
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

// sameContent reports whether two reports are equal apart from metadata and observedAt.
func sameContent(a, b *v1alpha1.SandboxReport) bool {
	x := *a
	x.TypeMeta, x.ObjectMeta, x.ObservedAt = b.TypeMeta, b.ObjectMeta, b.ObservedAt
	return equality.Semantic.DeepEqual(&x, b)
}

func reportType() metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: v1alpha1.Resource().GroupVersion().String(), Kind: "SandboxReport"}
}
