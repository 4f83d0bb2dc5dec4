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

func (e *Events) failed(x reconciler.Refused) {
	e.Eventf(subjectOf(x.Item), corev1.EventTypeWarning, reasonFailed,
		"failed to garbage collect addresses for pod %s: %s of network %s: %s: %s",
		x.PodRef(), x.Text(), network(x.Item), x.Why, x.Detail)
}

func (e *Events) aboutSelf(reason, text string) {
	e.Event(e.Self, corev1.EventTypeWarning, reason, text)
}

// finding writes an Event on the first pool of a finding, else on the node.
func (e *Events) finding(f judge.Finding, pools []*ippool.Pool) {
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
	if f.Kind == judge.StatusMismatch { // information only
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
