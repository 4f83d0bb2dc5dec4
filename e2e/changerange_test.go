//go:build !slow && !cluster

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// A range grows, shrinks and moves while pods run and ADDs go on, in the order of docs/operate/change-a-range.md. No
// address is assigned twice, every pod that is outside is found, and each old pool is retired.
func TestPools_ARangeChangesWhileADDsGoOn(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	nodes := []string{"worker-1", "worker-2"}
	check(t, s.CreateNAD(t.Context(), network("net", harness.IPAM{"range": "10.7.0.0/28", "range_end": "10.7.0.12"})))
	users, pods := newAddresses(), map[string]*pod{}
	start := func(name, node string) {
		t.Helper()
		p := s.up(t, node, name, try(s.defined("net")).must(t))
		check(t, users.take(p.ips[0], p.sandbox.ID))
		pods["default/"+name] = p
	}
	for i := range 6 {
		start(fmt.Sprint("pod-", i), nodes[i%2])
	}
	c := s.callADDs(t, users, nodes...)

	for _, x := range []struct {
		what string
		ipam harness.IPAM
		asks []string // flags of pools check
		pool string   // of today
		next string   // the pool of the new definition
	}{
		{"grow in the same CIDR", harness.IPAM{"range": "10.7.0.0/28"}, []string{"--new-range", "10.7.0.0/28"},
			"10.7.0.0-28", "10.7.0.0-28"},
		{"grow to another CIDR", harness.IPAM{"range": "10.7.0.0/24"}, []string{"--new-range", "10.7.0.0/24"},
			"10.7.0.0-28", "10.7.0.0-24"},
		{"add an exclude", harness.IPAM{"range": "10.7.0.0/24", "exclude": []any{"10.7.0.0/29"}},
			[]string{"--new-range", "10.7.0.0/24", "--exclude", "10.7.0.0/29"}, "10.7.0.0-24", "10.7.0.0-24"},
		{"shrink to a smaller CIDR", harness.IPAM{"range": "10.7.0.0/27"}, []string{"--new-range", "10.7.0.0/27"},
			"10.7.0.0-24", "10.7.0.0-27"},
		{"move elsewhere", harness.IPAM{"range": "10.9.8.0/24"}, []string{"--new-range", "10.9.8.0/24"},
			"10.7.0.0-27", "10.9.8.0-24"},
		{"shrink in the same CIDR", harness.IPAM{"range": "10.9.8.0/24", "range_start": "10.9.8.5"},
			[]string{"--new-range", "10.9.8.0/24", "--range-start", "10.9.8.5"}, "10.9.8.0-24", "10.9.8.0-24"},
	} {
		s.isSafeBesideADDs(t, append([]string{x.pool, "--add", "2"}, x.asks...)...)
		s.edit(t, network("net", x.ipam))
		c.renewed(t) // no ADD goes on by the definition of before
		for restarted := 0; ; restarted++ {
			out := s.product(t, "check", "--reason", "OutsideDefinition")
			outside := out.found("OutsideDefinition")
			if len(outside) == 0 {
				out.exits(t, 0)
				t.Logf("%s: %d pods restarted", x.what, restarted)
				break
			}
			out.exits(t, 1)
			p := pods[outside[0].Pods[0]]
			if p == nil || restarted > len(pods) {
				t.Fatalf("%s: %+v", x.what, outside[0])
			}
			users.give(p.ips[0])
			p.del(t)
			p.forceDelete(t)
			check(t, p.sandbox.Close())
			start(p.Name, p.node.Name)
		}
		for _, p := range pods {
			contains(t, x.what+": the allocations", strings.Join(keys(s.contents(t)), ", ")+",",
				x.next+" "+p.ips[0][strings.LastIndexByte(p.ips[0], '.')+1:]+",")
		}
		if x.next != x.pool {
			s.retireBesideADDs(t, x.pool)
			equal(t, x.what+": the old pool exists", s.exists(t, x.pool), false)
		}
		c.renewed(t) // ADDs go on
	}
	c.stop()
	s.product(t, "check").exits(t, 0)
	t.Logf("%d ADDs", users.count())
}

// isSafeBesideADDs asks pools check until the answer is Safe. It is Unknown as long as an ADD has an allocation and no
// reservation yet.
func (s *stage) isSafeBesideADDs(t *testing.T, args ...string) {
	t.Helper()
	eventually(t, "pools check to say Safe", func() bool {
		out, d := s.product(t, append([]string{"pools", "check"}, args...)...), poolCheck{}
		check(t, json.Unmarshal([]byte(out.stdout), &d))
		if d.Answer != "Safe" && (d.Answer != "Unknown" || !strings.Contains(out.stdout, "ADD may be in progress")) {
			t.Fatalf("the answer is %s", d.Answer)
		}
		return d.Answer == "Safe"
	})
}

// retireBesideADDs retires a pool. It is kept as long as a DEL in another pool has removed the allocation, and not yet
// the reservation, of an address that the pool has, too.
func (s *stage) retireBesideADDs(t *testing.T, pool string) {
	t.Helper()
	eventually(t, pool+" to be retired", func() bool {
		out := s.product(t, "pools", "retire", "--confirm-after", "0", pool, "--yes")
		if out.code != 0 && !strings.Contains(out.stdout, "an ADD or DEL may still be in progress") {
			t.Fatalf("%s is kept", pool)
		}
		return out.code == 0
	})
}

// callers call ADD and DEL again and again, each for a pod of its own.
type callers struct {
	stop   func() // waits for their last DELs
	mu     sync.Mutex
	cycles []int // ended, by caller
	errs   []error
}

// callADDs starts callers for the network net. Each ADD is by the definition of that moment.
func (s *stage) callADDs(t *testing.T, users *addresses, nodes ...string) *callers {
	t.Helper()
	c, done := &callers{cycles: make([]int, len(nodes))}, make(chan struct{})
	var all sync.WaitGroup
	cycle := func(p *pod) error {
		n, err := s.defined("net")
		if err != nil {
			return err
		}
		a, address, err := p.begin(n, users)
		if err != nil {
			return err
		}
		return p.end(a, address, users)
	}
	for i, node := range nodes {
		p := s.pending(t, node, fmt.Sprint("caller-", i))
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				err := cycle(p)
				c.mu.Lock()
				if c.cycles[i]++; err != nil {
					c.errs = append(c.errs, fmt.Errorf("%s: %w", p.Name, err))
				}
				c.mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	c.stop = sync.OnceFunc(func() {
		close(done)
		all.Wait()
		for _, err := range c.errs {
			t.Error(err)
		}
	})
	t.Cleanup(c.stop)
	return c
}

// renewed waits until each caller has ended an ADD and its DEL that began after this call.
func (c *callers) renewed(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	want := make([]int, len(c.cycles))
	for i, n := range c.cycles {
		want[i] = n + 2 // the first may have begun before
	}
	c.mu.Unlock()
	eventually(t, "ADDs by the new definition", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.errs) > 0 {
			t.Fatal(c.errs)
		}
		for i, n := range c.cycles {
			if n < want[i] {
				return false
			}
		}
		return true
	})
}
