package e2e

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// A watch has every version of the pools, and what was on the wire all the time.
type watch struct {
	pools   *history
	samples []sample
	stop    func()
}

// A sample is what was on the wire at a moment between two of etcd's revisions.
type sample struct {
	at       time.Time
	from, to uint64
	wire     map[netip.Addr][]string // the network namespaces
}

// A DEL takes an entry before its interface: for a moment an address is on the wire
// without one. With two loaded workers on two cores that is not always short.
const delTakes = 3 * time.Second

// watched begins a watch, to the end of which stop waits.
func (i *installation) watched(t testing.TB) *watch {
	t.Helper()
	w, ended := &watch{pools: must(record(t.Context(), i.of(harness.IPPools)))}, make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(ended)
		for tick := time.NewTicker(500 * time.Millisecond); ctx.Err() == nil; {
			w.samples = append(w.samples, i.sample(t))
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	w.stop = func() { cancel(); <-ended }
	t.Cleanup(w.stop)
	return w
}

func (i *installation) sample(t testing.TB) sample {
	s := sample{at: time.Now(), from: i.revision(t), wire: map[netip.Addr][]string{}}
	for _, worker := range i.whole.Workers {
		on, err := worker.OnWire()
		if err != nil {
			t.Error(err)
		}
		for a, namespaces := range on {
			for _, netNS := range namespaces {
				s.wire[a] = append(s.wire[a], worker.Name+netNS)
			}
		}
	}
	s.to = i.revision(t)
	return s
}

// judge returns the addresses of a pool that were on the wire without an entry for
// longer than a DEL takes, and those that two had, with the time when that began.
func (w *watch) judge(pool string, network netip.Prefix) (bare, twice map[string]string) {
	bare, twice = map[string]string{}, map[string]string{}
	first := 0
	for n, s := range w.samples {
		for s.at.Sub(w.samples[first].at) > delTakes {
			first++
		}
		recorded := map[string]bool{}
		for _, v := range w.pools.during(pool, w.samples[max(first-1, 0)].from, s.to) {
			for key := range entriesOf(v.object) {
				recorded[key] = true
			}
		}
		for a, namespaces := range s.wire {
			if !network.Contains(a) {
				continue
			}
			what := fmt.Sprintf("%s of %v", a, namespaces)
			if !recorded[keyOf(network, a)] && bare[what] == "" {
				bare[what] = s.at.Format(time.TimeOnly)
			}
			if n > 0 && len(namespaces) > 1 && len(w.samples[n-1].wire[a]) > 1 && twice[what] == "" {
				twice[what] = s.at.Format(time.TimeOnly)
			}
		}
	}
	return bare, twice
}

// given counts the entries that were made in a pool, those that a successor took over
// too.
func (w *watch) given(pool string) int {
	ids := map[string]bool{}
	for _, v := range w.pools.during(pool, 0, math.MaxUint64) {
		for key, e := range entriesOf(v.object) {
			ids[fmt.Sprint(key, e["id"])] = true
		}
	}
	return len(ids)
}

// keyOf is the key of an address in a pool of IPv4.
func keyOf(network netip.Prefix, a netip.Addr) string {
	first, this := network.Addr().As4(), a.As4()
	return fmt.Sprint(binary.BigEndian.Uint32(this[:]) - binary.BigEndian.Uint32(first[:]))
}
