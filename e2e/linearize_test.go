//go:build slow

package e2e

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// An operation is one change of one address. Its times are revisions of etcd, by which all clients agree on an order:
// the caller reads them before and after the call, and a write of the product has its own.
type operation struct {
	kind                    operationKind
	pool, key               string // the address; an ADD that failed has no key
	id, ifName, podRef      string
	call, returned          int64
	isUnknown, isUnanswered bool // whether it was performed at all; whether its caller knows an end
}

type operationKind string

const (
	adds     operationKind = "ADD"
	ends     operationKind = "end" // the sandbox stops using its address
	dels     operationKind = "DEL"
	releases operationKind = "release"
	repairs  operationKind = "repair"
)

func (o operation) String() string {
	text := fmt.Sprintf("%s of %s %s (%.12s), from revision %d", o.kind, o.podRef, o.ifName, o.id, o.call)
	if o.isUnanswered {
		return text + " on, without a known end"
	}
	return fmt.Sprintf("%s to %d", text, o.returned)
}

// A user is what a state of an address knows: whose it is, and whether its sandbox may still use it. The zero value is
// an address that is free.
type user struct {
	id, ifName, podRef string
	runs               bool
}

// step returns the states to which an operation can bring an address; none for what must not happen.
func (o operation) step(u user) (next []any) {
	isNamed := u.id == o.id && u.ifName == o.ifName
	stops := u
	stops.runs = false
	switch o.kind {
	case adds:
		if o.isUnknown {
			next = append(next, u)
		}
		// whereabouts gives a pod that returns the allocation that has its name.
		if u == (user{}) || !u.runs && u.podRef == o.podRef && u.ifName == o.ifName {
			next = append(next, user{o.id, o.ifName, o.podRef, !o.isUnanswered})
		}
	case ends:
		if isNamed {
			u = stops
		}
		next = append(next, u)
	case dels:
		// The plugin reports success whatever became of its requests.
		if next = append(next, u); isNamed {
			next = append(next, user{})
		}
	case releases:
		if isNamed && !u.runs {
			next = append(next, user{})
		}
	case repairs:
		switch {
		case isNamed:
			next = append(next, u)
		case !u.runs: // of a sandbox that whereabouts did not record, which may have ended since
			next = append(next, user{o.id, o.ifName, o.podRef, true}, user{o.id, o.ifName, o.podRef, false})
		}
	}
	return next
}

// violations checks that the operations on each address have an order in which each is a step of an address.
func violations(all []operation) (found []error) {
	model := (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{user{}} },
		Step: func(state, input, _ any) []any { return input.(operation).step(state.(user)) },
	}).ToModel()
	on := map[string][]operation{}
	for _, o := range all {
		on[o.pool+" "+o.key] = append(on[o.pool+" "+o.key], o)
	}
	for place, operations := range on {
		slices.SortStableFunc(operations, func(a, b operation) int { return int(a.call - b.call) })
		var history []porcupine.Operation
		text := ""
		for _, o := range operations {
			if o.isUnanswered {
				o.returned = math.MaxInt64
			}
			history = append(history, porcupine.Operation{Input: o, Call: o.call, Return: o.returned})
			text += "\n\t" + o.String()
		}
		if is := porcupine.CheckOperationsTimeout(model, history, time.Minute); is != porcupine.Ok {
			found = append(found, fmt.Errorf("no order of the operations on %s is one of an address (%s):%s", place, is, text))
		}
	}
	return found
}

// called records an operation that a caller begins. Until answered it has no known end.
func (r *faultTrial) called(kind operationKind, a harness.Attachment, pool, key string, revision uint64) *operation {
	o := &operation{kind: kind, pool: pool, key: key, id: a.Sandbox.ID, ifName: a.IfName,
		podRef: a.Namespace + "/" + a.Pod, call: int64(revision), isUnknown: true, isUnanswered: true}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.operations = append(r.operations, o)
	return o
}

// answered records the end of an operation.
func (r *faultTrial) answered(o *operation, key string, revision uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o.key, o.returned, o.isUnknown, o.isUnanswered = key, int64(revision), false, false
}

// key is under which a pool has an address of a /24.
func key(address string) string { return address[strings.LastIndexByte(address, '.')+1:] }

// checkOperations checks all operations of the trial: those of its callers, and what the audit log says of the product.
// An ADD whose allocation no version of its pool has may be performed, or not.
func (r *faultTrial) checkOperations(writes []harness.Write, unwritten []*holding) (count int, found []error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, known := []operation(nil), map[string]bool{}
	for _, o := range r.operations {
		is := *o
		known[is.id+is.ifName] = true
		if is.key == "" {
			is.key = r.pools.keyOf(is.pool, is.id, is.ifName)
		}
		if is.kind == adds && !is.isUnknown {
			is.isUnknown = slices.ContainsFunc(unwritten, func(h *holding) bool {
				return h.id == is.id && h.ifName == is.ifName
			})
		}
		if is.key != "" {
			all = append(all, is)
		}
	}
	for _, o := range r.pools.operations(writes, r.since) {
		if known[o.id+o.ifName] {
			all = append(all, o)
		}
	}
	for _, o := range all {
		if o.kind != ends {
			count++
		}
	}
	return count, violations(all)
}

// keyOf is under which key a pool ever had the allocation of an interface; "" for none.
func (h *history) keyOf(pool, id, ifName string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, v := range h.of[pool] {
		for key, e := range entriesOf(v.object) {
			if e["id"] == id && e["ifname"] == ifName {
				return key
			}
		}
	}
	return ""
}

// operations are the releases and repairs of pools after a revision. A write of which the audit log does not know who
// made it counts as the product's if it removes something: the API server was killed before it logged the write.
func (h *history) operations(writes []harness.Write, since uint64) (all []operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	by := map[string]string{}
	for _, w := range writes {
		if w.Base != 0 {
			by[fmt.Sprint(w.Name, w.Base)] = w.Program
		}
	}
	for pool, versions := range h.of {
		for i, v := range versions {
			if i == 0 || v.revision <= since {
				continue
			}
			program := by[fmt.Sprint(pool, versions[i-1].revision)]
			before, after := entriesOf(versions[i-1].object), entriesOf(v.object)
			does := func(kind operationKind, key string, e map[string]any) {
				all = append(all, operation{kind: kind, pool: pool, key: key, id: fmt.Sprint(e["id"]),
					ifName: fmt.Sprint(e["ifname"]), podRef: fmt.Sprint(e["podref"]), call: int64(v.revision),
					returned: int64(v.revision)})
			}
			for key, e := range before {
				same := after[key] != nil && after[key]["id"] == e["id"] && after[key]["ifname"] == e["ifname"]
				if !same && (program == "ip-reconcile" || program == "" && after[key] == nil) {
					does(releases, key, e)
				}
			}
			for key, e := range after {
				same := before[key] != nil && before[key]["id"] == e["id"] && before[key]["ifname"] == e["ifname"]
				if !same && program == "ip-reconcile" {
					does(repairs, key, e)
				}
			}
		}
	}
	return all
}

// TestOperations_AreThoseOfAnAddress has stories of one address. In each line "a ADD 1 3" is an operation of sandbox a
// between two revisions, and "a ADD 1 ?" one without a known end. Sandboxes a and b are of one pod.
func TestOperations_AreThoseOfAnAddress(t *testing.T) {
	t.Parallel()
	for story, want := range map[string]bool{
		"a ADD 1 3, a end 5 5, a DEL 5 7, c ADD 8 9":                               true,
		"a ADD 1 3, a end 5 5, a release 6 6, c ADD 6 9":                           true,
		"a ADD 1 3, a release 4 4":                                                 false,
		"a ADD 1 9, a end 9 9, a release 4 4":                                      false,
		"a ADD 1 3, a end 5 5, a release 4 4":                                      false,
		"a ADD 1 3, c ADD 4 5":                                                     false,
		"a ADD 1 3, a end 4 4, c ADD 5 6":                                          false,
		"a ADD 1 3, a end 4 4, b ADD 5 6, a end 7 7, b end 8 8, b release 9 9":     true,
		"a ADD 1 3, b ADD 5 6":                                                     false, // a still runs
		"a ADD 1 3, a end 4 4, b ADD 5 6, a release 7 7":                           false,
		"a ADD 1 3, a end 4 4, b ADD 5 6, a DEL 4 7, b end 8 8, b release 9 9":     true,
		"a ADD 1 3, a end 4 4, a DEL 4 6, a release 7 7":                           true, // the DEL did nothing
		"a ADD 1 3, a end 4 4, a DEL 4 ?, c ADD 5 6":                               true,
		"a ADD 1 3, a end 4 4, a release 5 5, a release 6 6":                       false,
		"a ADD 1 ?, c ADD 5 6":                                                     true, // it failed before it wrote
		"a ADD 1 ?, a release 5 5, c ADD 6 7":                                      true,
		"a ADD 1 ?, c ADD 5 6, a release 7 7":                                      false,
		"a ADD 1 3, a repair 4 4, a end 5 5, a release 6 6":                        true,
		"a ADD 1 3, c repair 4 4":                                                  false,
		"a repair 2 2, a release 3 3, c ADD 4 5":                                   true, // of an ADD that recorded nothing
		"a repair 2 2, c ADD 4 5":                                                  false,
		"a ADD 1 3, a end 4 4, a release 5 5, c ADD 5 7, c end 8 8, c release 9 9": true,
		"a ADD 1 3, a end 4 4, c ADD 5 7, a release 6 6, c end 8 8, c release 9 9": true,
	} {
		var all []operation
		for _, text := range strings.Split(story, ", ") {
			f := strings.Fields(text)
			o := operation{id: f[0], kind: operationKind(f[1]), podRef: "web"}
			if o.id == "c" {
				o.podRef = "other"
			}
			o.call = try(strconv.ParseInt(f[2], 10, 64)).must(t)
			if o.isUnanswered = f[3] == "?"; o.isUnanswered {
				o.isUnknown = true
			} else {
				o.returned = try(strconv.ParseInt(f[3], 10, 64)).must(t)
			}
			all = append(all, o)
		}
		if found := violations(all); (len(found) == 0) != want {
			t.Errorf("%s: legal is %v, want %v", story, !want, want)
		}
	}
}
