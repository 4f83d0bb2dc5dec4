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
// neither the API nor the product.
type oracle struct {
	mu sync.Mutex

	all          map[netip.Addr]*addressState
	since        time.Time // before it, no entry was there for nothing
	observations int

	excused []netip.Addr
}

// An addressState is what an oracle knows of an address.
type addressState struct {
	on  map[string]*holder // by network namespace
	off time.Time          // since when there is an entry for nothing

	story []string // what changed, and when

	crowded          int // observations in a row that saw it in two network namespaces
	wrong, duplicate bool
	freed            []time.Duration // how long its entry had been there for nothing
}

// A holder is a network namespace that has an address.
type holder struct {
	pod     string    // whose entry it was
	bare    time.Time // since when there is none, or another pod's
	excused bool      // etcd was restored, and its entry is not back yet
}

// An oracleReport is what an oracle has seen.
type oracleReport struct {
	Wrong      []netip.Addr // on the wire without an entry, or with another pod's
	Duplicates []netip.Addr // two network namespaces had them
	Leaked     []netip.Addr // their entries are there and nobody has them
	Freed      []time.Duration
}

// In a DEL the entry goes before the link, which on a loaded machine takes seconds.
const delTakes = 10 * time.Second

// watched starts an oracle that observes until the test ends.
func (i *installation) watched(t *testing.T) *oracle {
	r := &oracle{all: map[netip.Addr]*addressState{}}
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
				// What could not be read is nothing that was seen.
				entries, err := i.entries(ctx)
				if err != nil {
					continue
				}
				if wire, err := i.holders(); err == nil {
					r.observe(time.Now(), entries, wire)
				}
			}
		}
	}()
	return r
}

// entries are the podrefs of all pools' entries.
func (i *installation) entries(ctx context.Context) (map[netip.Addr]string, error) {
	pools, err := i.Dynamic().Resource(harness.IPPools).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	found := map[netip.Addr]string{}
	for _, p := range pools.Items {
		cidr, _, _ := unstructured.NestedString(p.Object, "spec", "range")
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			return nil, err
		}
		for key, e := range entriesOf(&p) {
			offset, _ := new(big.Int).SetString(key, 10)
			base := new(big.Int).SetBytes(prefix.Masked().Addr().AsSlice())
			address, _ := netip.AddrFromSlice(base.Add(base, offset).FillBytes(make([]byte, prefix.Addr().BitLen()/8)))
			found[address], _ = e["podref"].(string)
		}
	}
	return found, nil
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

// observe takes in what is there at one moment.
func (r *oracle) observe(now time.Time, entries map[netip.Addr]string, wire map[netip.Addr][]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for address := range entries {
		if r.all[address] == nil {
			r.all[address] = &addressState{}
		}
	}
	r.observations++
	for address, a := range r.all {
		a.note(now, entries[address], wire[address])
		a.observe(now, r.since, podOf(entries[address]), wire[address])
	}
}

// note remembers a change, for who reads why a test has failed.
func (a *addressState) note(now time.Time, podRef string, namespaces []string) {
	is := fmt.Sprintf("entry of %q, in %v", podRef, slices.Sorted(slices.Values(namespaces)))
	if n := len(a.story); n == 0 || !strings.HasSuffix(a.story[n-1], is) {
		a.story = append(a.story, now.Format("15:04:05.0 ")+is)
	}
}

func (a *addressState) observe(now, since time.Time, pod string, namespaces []string) {
	on := map[string]*holder{}
	for _, ns := range namespaces {
		h := a.on[ns]
		if h == nil {
			h = &holder{}
		}
		on[ns] = h
		switch {
		case h.excused && (pod == "" || pod != h.pod): // the entry of a restored pool may be of the past
		case pod != "" && (h.pod == "" || h.pod == pod):
			*h = holder{pod: pod}
		case h.bare.IsZero():
			h.bare = now
		case now.Sub(h.bare) >= delTakes:
			a.wrong = true
		}
	}
	a.on = on

	if a.crowded++; len(on) < 2 {
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

// restored notes that entries are gone because etcd was restored, which is no release.
func (r *oracle) restored() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.all {
		a.restored()
	}
}

func (a *addressState) restored() {
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
	for what, addresses := range map[string][]netip.Addr{"freed while it was on the wire": saw.Wrong, "on the wire twice": saw.Duplicates} {
		for _, a := range addresses {
			if !slices.Contains(r.excused, a) {
				t.Errorf("the oracle saw %s %s:\n%s", a, what, r.story(a))
			}
		}
	}
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
