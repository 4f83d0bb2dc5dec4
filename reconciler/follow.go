package reconciler

import (
	"context"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Follow makes a pass over what has changed since everything was judged, and over
// nothing else: its cost grows with the change, not with the cluster. The judgement
// is that of the last Pass; what has changed is amended in what it was made from, so
// that the next Follow may be given it again.
//
// It releases what a full pass would release of what it judges. It finds
// nothing that is wrong beside the verdicts, and leaves to the next full pass
// what only a name leads to, as to the entry of a pod that carries no
// address, and pools in which one key may stand for several addresses.
func (r *Reconciler) Follow(ctx context.Context, last *judge.Judgement, changes *judge.Live, ready func(*judge.Item) bool) *Result {
	j := last.Follow(changes)
	j.Observation.Local = r.Clock.Now()
	r.History.noteItems(j)
	j.Restore = r.History.restoreState(j)
	out := &Result{}
	r.releasePlanned(ctx, j, out, ready)
	return out
}
