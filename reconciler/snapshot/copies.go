package snapshot

import (
	"maps"
	"reflect"
	"strconv"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// One object may stand in several files: 'oc adm inspect' writes a running pod into
// core/pods.yaml and into pods/<name>/<name>.yaml, which it reads one after the other. This
// file decides which copy counts.

// newerPod is what two copies of a pod say together, nil where neither may be relied upon.
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
// is false where that is not known.
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

// countsFirst reports a copy of a pool or reservation that does not count.
func (s *Snapshot) countsFirst(o *object, first string) {
	s.report("%s: %s stands in %s already; that one counts", o.path, o.ref(), first)
}

// reportTwo reports that the snapshot has an object with two contents, of which neither
// is relied upon.
func (s *Snapshot) reportTwo(o *object, first string) string {
	return s.report("%s %s/%s: %s and %s have it, and differ; leave the one that is right", o.kind, o.namespace, o.name, first, o.path)
}

// differs reports whether two copies of an object are not the same.
func differs[T any](a, b *T) bool { return a != nil && !reflect.DeepEqual(a, b) }
