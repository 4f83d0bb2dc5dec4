package serve

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

const (
	// reasonPoolFull is the reason of the Event on a pod that waits for an address.
	reasonPoolFull = "IPPoolFull"
	// poolAnnotation names the full pool in what poolFull hands to its writer.
	poolAnnotation = "ip-reconcile.dev/pool"
	// maxWaitingPods is on how many pods a pass writes Events that a pool is full.
	maxWaitingPods = 100
	// waitingEvery is the minimum time between two writes of one such Event.
	waitingEvery = time.Minute
	// eventLifetime is how long the API server keeps an Event after its last write, by default.
	eventLifetime = time.Hour
)

// poolFull writes an Event on each pod that waits for an address of a full pool, on at most maxWaitingPods. They come
// from the pools in turn. A pool of which the pass has released an address is full no longer.
func (r *Recorder) poolFull(out *reconciler.Result, pools *usage.Pools) {
	if r.Events.Waiting == nil {
		return
	}
	released := sets.New[string]()
	for _, it := range out.Released {
		released.Insert(it.Object())
	}
	next, why := map[string]time.Time{}, map[string]reconciler.Refusal{}
	for _, x := range out.Refused {
		next[x.Object()] = reconciler.EarliestNonZero(next[x.Object()], x.At())
		why[x.Object()] = x.Main().Why
	}
	type waiting struct {
		in    *usage.Pool
		place int // in in.Waiting
	}
	var all []waiting
	for _, p := range pools.All {
		for i := range p.Waiting {
			if !released.Has(p.Ref()) {
				all = append(all, waiting{p, i})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b waiting) int { return cmp.Compare(a.place, b.place) })
	for _, x := range all[:min(len(all), maxWaitingPods)] {
		name, ref := x.in.Waiting[x.place], x.in.Ref()
		on := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: name.Namespace, Name: name.Name,
			UID: types.UID(out.Observation.Pods[name].UID)}
		r.Events.Waiting.AnnotatedEventf(on, map[string]string{poolAnnotation: ref}, corev1.EventTypeWarning,
			reasonPoolFull, "%s", fullText(x.in, next[ref], why[ref], out.Observation.Now))
	}
	if len(all) > maxWaitingPods && r.isNew("many pods wait") {
		r.Log.Warn("Many pods wait for an address, only the first have an Event", "waiting", len(all),
			"withEvent", maxWaitingPods)
	}
}

// fullText says whether waiting helps. next is when the first Stale item may be released, zero if unknown. why is why
// the pass has not released one of them.
func fullText(p *usage.Pool, next time.Time, why reconciler.Refusal, now time.Time) string {
	text := fmt.Sprintf("Pool %s is full: ", p.RangeText)
	switch p.Stale {
	case 0:
		text += "nothing is stale"
		if p.Held == 0 {
			return text + ": widen the range"
		}
		return text + fmt.Sprintf(", %d held ('ip-reconcile check --pool %s' shows why): widen the range", p.Held, p.Ref())
	case 1:
		text += "1 address is stale"
	default:
		text += fmt.Sprintf("%d addresses are stale", p.Stale)
	}
	form := time.TimeOnly
	if next.Sub(now) >= 24*time.Hour {
		form = time.DateTime
	}
	switch {
	case !next.IsZero():
		text += fmt.Sprintf(", the next is released at %s UTC if every pass agrees", next.UTC().Format(form))
	case why != "":
		text += fmt.Sprintf(" and not released: %s", why)
	}
	return text
}

// waitingEvents are the Events of poolFull in this process. One Event of a pod and pool has one name in all processes.
type waitingEvents struct {
	api       typedcorev1.EventsGetter
	log       *slog.Logger
	written   map[string]*applycorev1.EventApplyConfiguration // by name
	isFailing bool
}

// NewWaitingRecorder returns the recorder of Events on pods that wait for an address, until the context ends. Its queue
// never delays a pass. Without permission to create and patch events it writes nothing.
func NewWaitingRecorder(ctx context.Context, api typedcorev1.EventsGetter, log *slog.Logger) record.EventRecorder {
	w := &waitingEvents{api: api, log: log, written: map[string]*applycorev1.EventApplyConfiguration{}}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartEventWatcher(func(e *corev1.Event) { w.write(ctx, e) })
	context.AfterFunc(ctx, broadcaster.Shutdown)
	return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: Component})
}

// write creates the Event of a pod and pool, or updates it, at most once per waitingEvery.
func (w *waitingEvents) write(ctx context.Context, e *corev1.Event) {
	on := &e.InvolvedObject
	hash := sha256.Sum256([]byte(string(on.UID) + " " + e.Annotations[poolAnnotation]))
	name := fmt.Sprintf("%s.%x", strings.TrimRight(on.Name[:min(len(on.Name), 200)], "-."), hash[:8])
	maps.DeleteFunc(w.written, func(_ string, x *applycorev1.EventApplyConfiguration) bool {
		return e.LastTimestamp.Sub(x.LastTimestamp.Time) > eventLifetime
	})
	event := w.written[name]
	switch {
	case event == nil:
		ref := applycorev1.ObjectReference().WithAPIVersion(on.APIVersion).WithKind(on.Kind).WithNamespace(on.Namespace).
			WithName(on.Name).WithUID(on.UID)
		event = applycorev1.Event(name, on.Namespace).WithInvolvedObject(ref).WithType(e.Type).WithReason(e.Reason).
			WithSource(applycorev1.EventSource().WithComponent(Component)).WithFirstTimestamp(e.FirstTimestamp).WithCount(0)
		w.written[name] = event
	case e.LastTimestamp.Sub(event.LastTimestamp.Time) < waitingEvery:
		return
	}
	event.WithMessage(e.Message).WithLastTimestamp(e.LastTimestamp).WithCount(*event.Count + 1)
	_, err := w.api.Events(on.Namespace).Apply(ctx, event, metav1.ApplyOptions{FieldManager: Component, Force: true})
	if err != nil && ctx.Err() == nil && !w.isFailing {
		w.log.Warn("Cannot write Events on pods that wait for an address", "error", err)
	}
	w.isFailing = err != nil
}
