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

// An oracle observes a cluster from outside, twice a second: the entries of the pools,
// and the addresses that network namespaces really have. What is in use it learns from
// neither the API nor the product, and who removed what from the API server's audit log.
type oracle struct {
	mu sync.Mutex

	ranges       map[string]netip.Prefix // of the pools
	all          map[netip.Addr]*addressState
	since        time.Time // before it, no entry was there for nothing
	restoring    bool      // entries may be gone for as long as that takes, and nobody released them
	observations int

	excused []netip.Addr
}

// An addressState is what an oracle knows of an address.
type addressState struct {
	on  map[string]*holder // by network namespace
	off time.Time          // since when there is an entry for nothing

	removed    removal // of its entry, since the entry was seen last
	unreserved removal // of its reservation, which is not back yet

	story []string // what changed, and when

	crowded          int // observations in a row that saw it in two network namespaces
	wrong, duplicate bool
	blame            []string        // who did what is wrong
	freed            []time.Duration // how long its entry had been there for nothing
}

// A holder is a network namespace that has an address.
type holder struct {
	pod     string    // whose entry it was
	bare    time.Time // since when there is none, or another pod's
	removed removal   // of that entry, where the audit log has it
	leaving bool      // whereabouts' DEL removed the entry, and has yet to come to the link
	excused bool      // etcd was restored, and its entry is not back yet
}

// An oracleReport is what an oracle has seen.
type oracleReport struct {
	Wrong      []netip.Addr // on the wire without an entry, or with another pod's
	Duplicates []netip.Addr // two network namespaces had them
	Leaked     []netip.Addr // their entries are there and nobody has them
	Freed      []time.Duration
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
				// What could not be read is nothing that was seen. The log comes last: it has
				// whatever led to the rest.
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

// entries are the podrefs of all pools' entries.
func (i *installation) entries(ctx context.Context) (map[netip.Addr]string, error) {
	found, _, err := i.entriesAndRanges(ctx)
	return found, err
}

// entriesAndRanges are the entries, and the pools' ranges by name.
func (i *installation) entriesAndRanges(ctx context.Context) (found map[netip.Addr]string, ranges map[string]netip.Prefix, err error) {
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

// observe takes in what there was between two moments.
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

// note remembers a change, for who reads why a test has failed.
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
		case h.excused && (pod == "" || pod != h.pod): // the entry of a restored pool may be of the past
		case pod != "" && h.pod == "" && a.removed.at.After(began): // the entry that was read has gone since, perhaps to an ADD
		case pod != "" && (h.pod == "" || h.pod == pod):
			*h = holder{pod: pod}
			a.judgeReservation(began, pod, ns)
		case h.bare.IsZero(): // an ADD may be in progress, and its entry about to be there
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

// podOf is the pod of a podref. One that --repair wrote for a phantom has the UID too.
func podOf(podRef string) string {
	pod, _, _ := strings.Cut(podRef, "_")
	return pod
}

// restore puts a backup of etcd back, perhaps with flags of etcdutl. Entries are gone by that, which is
// no release, and until the API server is ready again the oracle judges nothing.
func (i *installation) restore(t *testing.T, snapshot string, flags ...string) {
	t.Helper()
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

// sees waits until the oracle has seen what there is now, in two observations.
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

// now is from when entries that are there for nothing may be freed, when that is not
// since nobody has the address.
func (r *oracle) now() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since = time.Now()
}

// ignores an address that the test has on the wire twice, or without an entry.
func (r *oracle) ignores(address netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.excused = append(r.excused, address)
}

// check fails the test for what may not be seen.
func (r *oracle) check(t *testing.T) {
	saw := r.report()
	if l := r.lingering(); len(l) > 0 {
		t.Logf("%v are in use although whereabouts' DEL removed their entries: it has yet to come to their links", l)
	}
	for what, addresses := range map[string][]netip.Addr{"freed while it was on the wire": saw.Wrong, "on the wire twice": saw.Duplicates} {
		for _, a := range addresses {
			if !slices.Contains(r.excused, a) {
				t.Errorf("the oracle saw %s %s: %s\n%s", a, what, r.blamed(a), r.story(a))
			}
		}
	}
}

// blamed says who did it.
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

// oracleReport is what was seen until now.
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
		seen.Freed = append(seen.Freed, a.freed...)
	}
	slices.Sort(seen.Freed)
	for _, s := range [][]netip.Addr{seen.Wrong, seen.Duplicates, seen.Leaked} {
		slices.SortFunc(s, netip.Addr.Compare)
	}
	return seen
}

func (r oracleReport) String() string {
	return fmt.Sprintf("wrongly freed %v, on the wire twice %v, leaked %v, freed after %v", r.Wrong, r.Duplicates, r.Leaked, r.Freed)
}
