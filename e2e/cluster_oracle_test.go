//go:build cluster

package e2e

import (
	"context"
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// An oracle observes a cluster from outside, twice a second: the allocations of the pools, and the addresses that
// network namespaces really have. It does not use the API or the product to decide what is in use. The API server's
// audit log shows who removed what.
type oracle struct {
	mu sync.Mutex

	ranges       map[string]netip.Prefix // of the pools
	all          map[netip.Addr]*addressState
	since        time.Time // before then no allocation counts as leaked
	restoring    bool      // allocations may be missing for that long after a restore: nobody released them
	observations int

	excused []netip.Addr
}

// An addressState is what an oracle knows about an address.
type addressState struct {
	on  map[string]*holder // by network namespace
	off time.Time          // since when there is an allocation that nobody uses

	removed    removal // of its allocation, since it was observed last
	unreserved removal // of its reservation, which was not created again

	story []string // what changed, and when

	crowded          int // consecutive observations with the address in two network namespaces
	wrong, duplicate bool
	blame            []string        // who caused a wrong release
	freed            []time.Duration // how long its allocation had been unused
}

// A holder is a network namespace that has an address.
type holder struct {
	pod     string    // whose allocation it was
	bare    time.Time // since when there is none, or another pod's
	removed removal   // of that allocation, from the audit log
	leaving bool      // whereabouts' DEL removed the allocation and has not reached the link
	excused bool      // etcd was restored, and its allocation is not back yet
}

// An oracleReport is the result of an oracle.
type oracleReport struct {
	Wrong      []netip.Addr // on the wire without an allocation, or with another pod's
	Duplicates []netip.Addr // two network namespaces had them
	Leaked     []netip.Addr // recorded, and nobody has them
	Released   []time.Duration
}

func newOracle() *oracle {
	return &oracle{all: map[netip.Addr]*addressState{}, ranges: map[string]netip.Prefix{}}
}

// watched starts an oracle that observes until the test ends.
func (i *installation) watched(t *testing.T) *oracle {
	r := newOracle()
	log := i.AuditLog()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for tick := time.NewTicker(500 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				// What could not be read was not observed. The log is read last, so it explains all that was read before.
				began := time.Now()
				entries, ranges, err := i.entriesAndRanges(ctx)
				if err != nil {
					continue
				}
				wire, err := i.holders()
				if err != nil {
					continue
				}
				writes, err := log.Next()
				if err != nil {
					t.Error(err)
				}
				r.learn(ranges, writes)
				r.observe(began, time.Now(), entries, wire)
			}
		}
	}()
	return r
}

// entries are the podrefs of all pools' allocations.
func (i *installation) entries(ctx context.Context) (map[netip.Addr]string, error) {
	found, _, err := i.entriesAndRanges(ctx)
	return found, err
}

// entriesAndRanges are the allocations, and the pools' ranges by name.
func (i *installation) entriesAndRanges(ctx context.Context) (found map[netip.Addr]string,
	ranges map[string]netip.Prefix, err error) {
	pools, err := i.Dynamic().Resource(harness.IPPools).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	found, ranges = map[netip.Addr]string{}, map[string]netip.Prefix{}
	for _, p := range pools.Items {
		cidr, _, _ := unstructured.NestedString(p.Object, "spec", "range")
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			return nil, nil, err
		}
		ranges[p.GetName()] = prefix
		for key, e := range entriesOf(&p) {
			found[addressOf(prefix, key)], _ = e["podref"].(string)
		}
	}
	return found, ranges, nil
}

func addressOf(prefix netip.Prefix, key string) netip.Addr {
	offset, _ := new(big.Int).SetString(key, 10)
	base := new(big.Int).SetBytes(prefix.Masked().Addr().AsSlice())
	address, _ := netip.AddrFromSlice(base.Add(base, offset).FillBytes(make([]byte, prefix.Addr().BitLen()/8)))
	return address
}

// holders are the network namespaces with an address, on all workers.
func (i *installation) holders() (map[netip.Addr][]string, error) {
	found := map[netip.Addr][]string{}
	for _, w := range i.cluster.Workers {
		on, err := w.OnWire()
		if err != nil {
			return nil, err
		}
		for a, namespaces := range on {
			for _, netNS := range namespaces {
				found[a] = append(found[a], w.Name+netNS)
			}
		}
	}
	return found, nil
}

// observe takes in what existed between two moments.
func (r *oracle) observe(began, now time.Time, entries map[netip.Addr]string, wire map[netip.Addr][]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for address := range entries {
		r.state(address)
	}
	r.observations++
	for address, a := range r.all {
		if r.restoring {
			a.restored()
			continue
		}
		a.note(now, entries[address], wire[address])
		a.observe(began, now, r.since, podOf(entries[address]), wire[address])
	}
}

func (r *oracle) state(address netip.Addr) *addressState {
	if r.all[address] == nil {
		r.all[address] = &addressState{}
	}
	return r.all[address]
}

// note records a change, to explain a failed test.
func (a *addressState) note(now time.Time, podRef string, namespaces []string) {
	is := fmt.Sprintf("entry of %q, in %v", podRef, slices.Sorted(slices.Values(namespaces)))
	if n := len(a.story); n == 0 || !strings.HasSuffix(a.story[n-1], is) {
		a.story = append(a.story, now.Format("15:04:05.0 ")+is)
	}
}

func (a *addressState) observe(began, now, since time.Time, pod string, namespaces []string) {
	on, staying := map[string]*holder{}, 0
	for _, ns := range namespaces {
		h := a.on[ns]
		if h == nil {
			h = &holder{}
		}
		on[ns] = h
		switch {
		case h.excused && (pod == "" || pod != h.pod): // the allocation of a restored pool may be out of date
		// the allocation was removed after it was read, perhaps for an ADD
		case pod != "" && h.pod == "" && a.removed.at.After(began):
		case pod != "" && (h.pod == "" || h.pod == pod):
			*h = holder{pod: pod}
			a.judgeReservation(began, pod, ns)
		case h.bare.IsZero(): // an ADD may be in progress and about to store its allocation
			h.bare, h.removed = now, a.removed
		case !h.leaving:
			a.judgeBare(now, h, ns)
		}
		if !h.leaving {
			staying++
		}
	}
	a.on = on
	if pod != "" && a.removed.at.Before(began) {
		a.removed = removal{}
	}

	if a.crowded++; staying < 2 {
		a.crowded = 0
	}
	a.duplicate = a.duplicate || a.crowded >= 2

	switch {
	case pod != "" && len(on) == 0:
		if a.off.IsZero() {
			a.off = now
		}
	case !a.off.IsZero():
		if pod == "" && len(on) == 0 {
			a.freed = append(a.freed, min(now.Sub(a.off), now.Sub(since)))
		}
		a.off = time.Time{}
	}
}

// podOf is the pod of a podref. A podref that --repair wrote for a phantom has the UID too.
func podOf(podRef string) string {
	pod, _, _ := strings.Cut(podRef, "_")
	return pod
}

// restore restores a backup of etcd, perhaps with flags of etcdutl. That removes allocations without a release, so the
// oracle judges nothing until the API server is ready again.
func (i *installation) restore(t *testing.T, snapshot string, flags ...string) {
	t.Helper()
	i.oracle.sees(t) // an address that it sees on the wire only afterwards looks like one that was never recorded
	i.oracle.restores(true)
	defer i.oracle.restores(false)
	check(t, i.cluster.Restore(t.Context(), snapshot, flags...))
}

func (r *oracle) restores(now bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.restoring = now
	for _, a := range r.all {
		a.restored()
	}
}

func (a *addressState) restored() {
	a.removed, a.unreserved = removal{}, removal{}
	for _, h := range a.on {
		*h = holder{pod: h.pod, excused: true}
	}
}

// sees waits until the oracle has made two observations that began now or later.
func (r *oracle) sees(t *testing.T) {
	t.Helper()
	observations := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.observations
	}
	before := observations() // and the next may have begun
	eventually(t, "the oracle to observe", func() bool { return observations() >= before+3 })
}

// now marks the moment from which unused allocations may be released, if they were in use until now.
func (r *oracle) now() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since = time.Now()
}

// ignores excludes an address that the test puts on the wire twice or without an allocation.
func (r *oracle) ignores(address netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.excused = append(r.excused, address)
}

// check fails the test for what the oracle must not observe.
func (r *oracle) check(t *testing.T) {
	saw := r.report()
	if l := r.lingering(); len(l) > 0 {
		t.Logf("%v are in use although whereabouts' DEL removed their entries: it has yet to come to their links", l)
	}
	for what, addresses := range map[string][]netip.Addr{"released while it was on the wire": saw.Wrong,
		"on the wire twice": saw.Duplicates} {
		for _, a := range addresses {
			if !slices.Contains(r.excused, a) {
				t.Errorf("the oracle saw %s %s: %s\n%s", a, what, r.blamed(a), r.story(a))
			}
		}
	}
}

// blamed names the program that caused a wrong release.
func (r *oracle) blamed(address netip.Addr) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.all[address].blame, "; ")
}

func (r *oracle) story(address netip.Addr) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.all[address].story, "\n")
}

// report is the result so far.
func (r *oracle) report() (seen oracleReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for address, a := range r.all {
		if a.wrong {
			seen.Wrong = append(seen.Wrong, address)
		}
		if a.duplicate {
			seen.Duplicates = append(seen.Duplicates, address)
		}
		if !a.off.IsZero() {
			seen.Leaked = append(seen.Leaked, address)
		}
		seen.Released = append(seen.Released, a.freed...)
	}
	slices.Sort(seen.Released)
	for _, s := range [][]netip.Addr{seen.Wrong, seen.Duplicates, seen.Leaked} {
		slices.SortFunc(s, netip.Addr.Compare)
	}
	return seen
}

func (r oracleReport) String() string {
	return fmt.Sprintf("wrongly released %v, on the wire twice %v, leaked %v, released after %v", r.Wrong, r.Duplicates,
		r.Leaked, r.Released)
}
