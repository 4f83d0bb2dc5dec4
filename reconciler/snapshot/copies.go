package snapshot

import (
	"fmt"
	"maps"
	"reflect"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// One object may stand in several files: 'oc adm inspect' writes a running pod into
// core/pods.yaml and into pods/<name>/<name>.yaml, which it reads one after the other. This
// file decides which copy counts.

// newerPod is what two copies of a pod tell together, nil where neither may be relied upon.
//
// Of two copies of the same pod (one UID) the one with the higher resourceVersion is the later,
// as the API server counts them up (KEP-5504 makes that a promise; before it etcd's revisions
// did). What the later says is what a snapshot with that copy alone would have been judged by.
// A restore of etcd makes them run backwards, and so an order is not believed that no pod can
// take: one does not leave a terminal phase, a deletion is not taken back, and a pod does not
// change its node. The addresses of both count: whichever it carries is not free.
func newerPod(a, b *podstate.Pod) *podstate.Pod {
	if a.Disputed != "" || a.UID == "" || a.UID != b.UID {
		return nil
	}
	if sameBut(a, b, func(p *podstate.Pod) { p.ResourceVersion = "" }) {
		return b
	}
	inOrder, ordered := versionsInOrder(a.ResourceVersion, b.ResourceVersion)
	if !ordered || a.Status == podstate.StatusUnreadable || b.Status == podstate.StatusUnreadable {
		return nil
	}
	before, after := a, b
	if !inOrder {
		before, after = b, a
	}
	switch {
	case before.Phase == podstate.Finished && after.Phase != podstate.Finished,
		!before.Deleted.IsZero() && after.Deleted.IsZero(),
		before.Node != "" && before.Node != after.Node:
		return nil
	}
	newer := *after
	if newer.Phase != podstate.Finished && !reflect.DeepEqual(before.Interfaces, after.Interfaces) {
		newer.Interfaces = bothInterfaces(before, after)
	}
	return &newer
}

// bothInterfaces are those of two copies of a pod, of which the longer list is used up: there
// may be any number of copies, each of which adds its own.
func bothInterfaces(a, b *podstate.Pod) []podstate.Interface {
	if len(a.Interfaces) < len(b.Interfaces) {
		a, b = b, a
	}
	return append(a.Interfaces, b.Interfaces...)
}

// versionsInOrder reports whether the second resourceVersion is later than the first; ordered
// is false where that cannot be told.
func versionsInOrder(first, second string) (inOrder, ordered bool) {
	a, aErr := strconv.ParseUint(first, 10, 64)
	b, bErr := strconv.ParseUint(second, 10, 64)
	return a < b, aErr == nil && bErr == nil && a != b
}

// sameBut reports whether two copies are the same but for what drop drops.
func sameBut[T any](a, b *T, drop func(*T)) bool {
	x, y := *a, *b
	drop(&x)
	drop(&y)
	return reflect.DeepEqual(x, y)
}

// ofBothNamespaces are the annotations that count of two copies of a namespace: what lets
// anything be released must stand in both, and a pause in one.
func ofBothNamespaces(a, b map[string]string) map[string]string {
	both := maps.Clone(b)
	maps.DeleteFunc(both, func(name, value string) bool { return a[name] != value })
	if ippool.Pauses(a) || ippool.Pauses(b) {
		both = map[string]string{ippool.PausedAnnotation: "true"}
	}
	return both
}

// addPoolCopy takes in another copy of a pool. Of two contents of one pool the later counts;
// where that cannot be told, the first does, and it is reported.
func (f *Snapshot) addPoolCopy(o *object, first string) error {
	p, err := ippool.DecodePool(o.text)
	if err != nil {
		return err
	}
	if p.ResourceVersion == "" {
		p.ResourceVersion = noVersion
	}
	at, there := f.poolAt[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}]
	if !there { // the first could not be read
		f.keepPool(p)
		return nil
	}
	old := f.pools[at]
	if sameBut(old, p, func(p *ippool.Pool) { p.ResourceVersion = "" }) {
		return nil
	}
	inOrder, ordered := versionsInOrder(old.ResourceVersion, p.ResourceVersion)
	switch {
	case p.UID == "" || p.UID != old.UID || !ordered:
		f.countsFirst(o, first)
	case inOrder:
		f.pools[at] = p
	}
	return nil
}

// addReservationCopy takes in another copy of a reservation.
func (f *Snapshot) addReservationCopy(o *object, first string) error {
	r, err := ippool.DecodeReservation(o.text)
	if err != nil {
		return err
	}
	old := f.reservationAt[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}]
	if old == nil {
		return f.addReservation(o)
	}
	if !sameBut(old, r, func(r *ippool.Reservation) { r.ResourceVersion = "" }) {
		f.countsFirst(o, first)
	}
	return nil
}

func (f *Snapshot) countsFirst(o *object, first string) {
	f.unreadable = append(f.unreadable, fmt.Sprintf("%s: %s stands in %s already; that one counts", o.file.path, o.ref(), first))
}
