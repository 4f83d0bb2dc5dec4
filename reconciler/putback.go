package reconciler

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// putBack creates again the reservations that were deleted for an entry which
// then proved live: its ADD may have seen the reservation, kept it, and will
// not make another. An entry that is Stale under another id, or gone, gets none,
// nor does one of another pod, which has made its own.
func (b *batch) putBack(ctx context.Context, t *tracked, j *Judgement) {
	ctx, cancel := inAnyCase(ctx)
	defer cancel()
	for _, it := range j.Allocations {
		if t.Allocation != nil && it.Object() == t.Object() && it.Key() == t.Key() && it.PodRef() == t.PodRef() && (it.Verdict != Stale || it.ID() == t.ID()) {
			b.recreate(ctx, t)
		}
	}
}

// giveUp leaves items for the next run. What is not known to have gone well
// gets its reservations back: one too many is found and freed later, one too
// few may give a live address away.
func (b *batch) giveUp(ctx context.Context, items []*tracked, why Refusal, detail string) {
	ctx, cancel := inAnyCase(ctx)
	defer cancel()
	for _, t := range items {
		b.recreate(ctx, t)
		b.out.refuse(Refused{t.Item, why, detail})
	}
}

// inAnyCase is the time for putting back, even where the run is being stopped or
// the Lease must be given back: this is the one write that must not be left half
// done. It bounds how long a process takes to end.
func inAnyCase(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
}

func (b *batch) recreate(ctx context.Context, t *tracked) {
	for _, res := range t.deleted {
		var err error
		for try := range 5 {
			if err = b.Writer.CreateReservation(ctx, again(res)); err == nil || errors.Is(err, ErrConflict) {
				err = nil
				break
			}
			b.wait(ctx, 200*time.Millisecond<<try)
		}
		if err != nil {
			b.Log.Error("could not put back the reservation of an address in use; create it by hand, or run with --repair",
				"reservation", res.Ref(), "podRef", res.PodRef, "ifName", res.IfName, "error", err)
			continue
		}
		b.Log.Info("put the reservation back", "reservation", res.Ref(), "podRef", res.PodRef)
	}
	t.deleted = nil
}

// again is a deleted reservation as it can be created anew.
func again(r *ippool.Reservation) *unstructured.Unstructured {
	o := r.Object.DeepCopy()
	for _, field := range []string{"resourceVersion", "uid", "creationTimestamp", "generation", "managedFields", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	return o
}
