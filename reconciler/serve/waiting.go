package serve

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// poolFull writes an Event on each pod that waits for an address of a full pool, on at most maxWaitingPods. A pool that
// the pass has released an address of is full no longer.
func (r *Recorder) poolFull(out *reconciler.Result, pools *usage.Pools) {
	if r.Events.Waiting == nil {
		return
	}
	released, refused := map[string]bool{}, map[string][]reconciler.Refused{}
	for _, it := range out.Released {
		released[it.Object()] = true
	}
	for _, x := range out.Refused {
		refused[x.Object()] = append(refused[x.Object()], x)
	}
	waiting := 0
	for _, p := range pools.All {
		if released[p.Ref()] {
			continue
		}
		text := fullText(p, refused[p.Ref()], out.Observation.Now)
		for _, name := range p.Waiting {
			if waiting++; waiting > maxWaitingPods {
				continue
			}
			on := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: name.Namespace, Name: name.Name,
				UID: types.UID(out.Observation.Pods[name].UID)}
			r.Events.Waiting.AnnotatedEventf(on, map[string]string{poolAnnotation: p.Ref()}, corev1.EventTypeWarning,
				reasonPoolFull, "%s", text)
		}
	}
	if waiting > maxWaitingPods && r.isNew("many pods wait") {
		r.Log.Warn("Many pods wait for an address, only the first have an Event", "waiting", waiting,
			"withEvent", maxWaitingPods)
	}
}

// fullText says whether waiting helps. refused are the Stale items of the pool that the pass has not released.
func fullText(p *usage.Pool, refused []reconciler.Refused, now time.Time) string {
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
	var next time.Time
	var why reconciler.Refusal
	for _, x := range refused {
		next = reconciler.EarliestNonZero(next, x.At())
		why = x.Main().Why
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
	written   map[string]waitingEvent // by name
	isFailing bool
}

type waitingEvent struct {
	first, last metav1.Time
	count       int32
}

// NewWaitingRecorder returns the recorder of Events on pods that wait for an address, until the context ends. Its queue
// never delays a pass. Without permission to create and patch events it writes nothing.
func NewWaitingRecorder(ctx context.Context, api typedcorev1.EventsGetter, log *slog.Logger) record.EventRecorder {
	w := &waitingEvents{api: api, log: log, written: map[string]waitingEvent{}}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartEventWatcher(func(e *corev1.Event) { w.write(ctx, e) })
	context.AfterFunc(ctx, broadcaster.Shutdown)
	return broadcaster.NewRecorder(scheme.Scheme, Source())
}

// write creates the Event of a pod and pool, or updates it, at most once per waitingEvery.
func (w *waitingEvents) write(ctx context.Context, e *corev1.Event) {
	on := &e.InvolvedObject
	hash := sha256.Sum256([]byte(string(on.UID) + " " + e.Annotations[poolAnnotation]))
	name := fmt.Sprintf("%s.%x", strings.TrimRight(on.Name[:min(len(on.Name), 200)], "-."), hash[:8])
	maps.DeleteFunc(w.written, func(_ string, x waitingEvent) bool {
		return e.LastTimestamp.Sub(x.last.Time) > eventLifetime
	})
	x, isKnown := w.written[name]
	switch {
	case !isKnown:
		x.first = e.FirstTimestamp
	case e.LastTimestamp.Sub(x.last.Time) < waitingEvery:
		return
	}
	x.last, x.count = e.LastTimestamp, x.count+1
	w.written[name] = x
	ref := applycorev1.ObjectReference().WithAPIVersion(on.APIVersion).WithKind(on.Kind).WithNamespace(on.Namespace).
		WithName(on.Name).WithUID(on.UID)
	event := applycorev1.Event(name, on.Namespace).WithInvolvedObject(ref).WithType(e.Type).WithReason(e.Reason).
		WithMessage(e.Message).WithSource(applycorev1.EventSource().WithComponent(component)).
		WithFirstTimestamp(x.first).WithLastTimestamp(x.last).WithCount(x.count)
	_, err := w.api.Events(on.Namespace).Apply(ctx, event, metav1.ApplyOptions{FieldManager: component, Force: true})
	if err != nil && ctx.Err() == nil && !w.isFailing {
		w.log.Warn("Cannot write Events on pods that wait for an address", "error", err)
	}
	w.isFailing = err != nil
}
