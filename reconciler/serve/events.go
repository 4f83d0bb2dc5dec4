package serve

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// The reasons of events that people alert on (whereabouts v0.9.4,
// pkg/controlloop/pod.go).
const (
	collected    = "IPAddressGarbageCollected"
	notCollected = "IPAddressGarbageCollectionFailed"
)

// Events writes Kubernetes events. The recorder aggregates them: a mass release
// is a few events of each pool, with a count.
type Events struct {
	record.EventRecorder
	// Self is what events about the reconciler itself are about.
	Self *corev1.ObjectReference
}

func (e *Events) released(it *judge.Item) {
	e.Eventf(subjectOf(it), corev1.EventTypeNormal, collected, "successful cleanup of IP address [%s] from network %s: %s (rule %s)", it.Text(), network(it), it.Reason, it.RuleID())
}

func (e *Events) failed(x reconciler.Refused) {
	e.Eventf(subjectOf(x.Item), corev1.EventTypeWarning, notCollected, "failed to garbage collect addresses for pod %s: %s of network %s: %s: %s", x.PodRef(), x.Text(), network(x.Item), x.Why, x.Detail)
}

func (e *Events) aboutSelf(reason, text string) {
	e.Event(e.Self, corev1.EventTypeWarning, reason, text)
}

// finding is about the pool that a finding names, else about the node.
func (e *Events) finding(f judge.Finding, poolUID string) {
	on := e.Self
	if pool, _, _ := strings.Cut(f.Pool, ","); pool != "" {
		on = poolReference(pool, poolUID)
	} else if f.Node != "" {
		on = &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: f.Node, UID: types.UID(f.Node)} // as kubelet writes it
	}
	level := corev1.EventTypeWarning
	if f.Kind == judge.StatusMismatch { // information only
		level = corev1.EventTypeNormal
	}
	e.Event(on, level, string(f.Kind), f.Message)
}

// uidOf is that of the first pool that a finding names.
func uidOf(pools string, out *reconciler.Result) string {
	first, _, _ := strings.Cut(pools, ",")
	for _, p := range out.Observation.Pools {
		if p.Ref() == first {
			return p.UID
		}
	}
	return ""
}

// subjectOf is the allocation's pod where there is one; else its pool. A successor
// of the same name is not its pod.
func subjectOf(it *judge.Item) *corev1.ObjectReference {
	if p := it.Evidence().Pod; p != nil && it.Evidence().Phase != podstate.None && it.Evidence().Ownership != judge.NotItsPod {
		return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: types.UID(p.UID), ResourceVersion: p.ResourceVersion}
	}
	return poolReference(it.Object(), it.Pool.UID)
}

func poolReference(ref, uid string) *corev1.ObjectReference {
	namespace, name, _ := strings.Cut(ref, "/")
	return &corev1.ObjectReference{APIVersion: ippool.PoolResource.GroupVersion().String(), Kind: "IPPool", Namespace: namespace, Name: name, UID: types.UID(uid)}
}

// network names the network as its pool does: by its range, and its name where
// the pool's name tells it.
func network(it *judge.Item) string {
	for _, r := range it.Related() {
		if r.Network() != "" {
			return fmt.Sprintf("%s (%s)", r.Network(), it.Pool.RangeText)
		}
	}
	return it.Pool.RangeText
}
