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

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// The reasons of Events that whereabouts' pod controller writes, too (v0.9.4, pkg/controlloop/pod.go).
const (
	reasonReleased = "IPAddressGarbageCollected"
	reasonFailed   = "IPAddressGarbageCollectionFailed"
)

// Component is the source of all Events.
const Component = "ip-reconcile"

// Events writes Kubernetes Events. Its EventRecorder aggregates the Events of one pool.
type Events struct {
	record.EventRecorder
	// Self is the object of Events about the reconciler.
	Self *corev1.ObjectReference
	// Waiting writes Events on pods that wait for an address; nil for none.
	Waiting record.EventRecorder
}

func (e *Events) released(it *judge.Item) {
	e.Eventf(subjectOf(it), corev1.EventTypeNormal, reasonReleased,
		"successful cleanup of IP address [%s] from network %s: %s (rule %s)",
		it.Text(), network(it), it.Reason, it.RuleID())
}

func (e *Events) failed(x plan.Refused) {
	e.Eventf(subjectOf(x.Item), corev1.EventTypeWarning, reasonFailed,
		"failed to garbage collect addresses for pod %s: %s of network %s: %s: %s",
		x.PodRef(), x.Text(), network(x.Item), x.Why, x.Detail)
}

func (e *Events) aboutSelf(reason, text string) {
	e.Event(e.Self, corev1.EventTypeWarning, reason, text)
}

// finding writes an Event on the first pool of a finding, else on the node.
func (e *Events) finding(f findings.Finding, pools []*ippool.Pool) {
	on := e.Self
	if ref, _, _ := strings.Cut(f.Pool, ","); ref != "" {
		on = poolReference(ref, "")
		for _, p := range pools {
			if p.Ref() == ref {
				on.UID = types.UID(p.UID)
			}
		}
	} else if f.Node != "" {
		on = &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: f.Node, UID: types.UID(f.Node)} // as kubelet's
	}
	level := corev1.EventTypeWarning
	if f.Kind == findings.StatusMismatch || f.Kind == findings.OutsideDefinition { // information only
		level = corev1.EventTypeNormal
	}
	e.Event(on, level, string(f.Kind), f.Message)
}

// subjectOf returns the pod of an allocation if that pod exists, else the pool. Another pod of the same name does not
// count.
func subjectOf(it *judge.Item) *corev1.ObjectReference {
	e := it.Evidence()
	if p := e.Pod; p != nil && e.Phase != podstate.None && e.Ownership != judge.NotItsPod {
		return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name,
			UID: types.UID(p.UID), ResourceVersion: p.ResourceVersion}
	}
	return poolReference(it.Object(), it.Pool.UID)
}

func poolReference(ref, uid string) *corev1.ObjectReference {
	namespace, name, _ := strings.Cut(ref, "/")
	return &corev1.ObjectReference{APIVersion: ippool.PoolResource.GroupVersion().String(), Kind: "IPPool",
		Namespace: namespace, Name: name, UID: types.UID(uid)}
}

// network returns the range of an allocation's network, and its name if known.
func network(it *judge.Item) string {
	for _, r := range it.Related() {
		if r.Network() != "" {
			return fmt.Sprintf("%s (%s)", r.Network(), it.Pool.RangeText)
		}
	}
	return it.Pool.RangeText
}

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
	next, why := map[string]time.Time{}, map[string]plan.Refusal{}
	for _, x := range out.Refused {
		next[x.Object()] = plan.EarliestNonZero(next[x.Object()], x.At())
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
func fullText(p *usage.Pool, next time.Time, why plan.Refusal, now time.Time) string {
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
