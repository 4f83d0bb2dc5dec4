//go:build !slow && !cluster

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// retired is the document of `pools retire`, of which apply prints a part.
type retired struct {
	Pools, Retirements []struct {
		Pool, State, Detail string
		Workloads           []struct{ Name string }
		Obstacles           []struct{ Kind, Detail, IP string }
	}
}

// retire runs `pools retire` on one pool, and returns its state and why.
func (s *stage) retire(t testing.TB, code int, args ...string) (state, why string) {
	t.Helper()
	out := s.product(t, append([]string{"pools", "retire", "--confirm-after", "0"}, args...)...)
	out.exits(t, code)
	var d retired
	check(t, json.Unmarshal([]byte(out.stdout), &d))
	if len(d.Pools) != 1 {
		t.Fatalf("%d pools: %s", len(d.Pools), out.stdout)
	}
	return d.Pools[0].State, d.Pools[0].Detail
}

// unused are the commands that `pools --unused` prints.
func (s *stage) unused(t testing.TB) (commands []string) {
	t.Helper()
	out := s.product(t, "pools", "--unused")
	out.exits(t, 0)
	var d struct {
		Pools []struct{ DeleteCommand string }
	}
	check(t, json.Unmarshal([]byte(out.stdout), &d))
	for _, p := range d.Pools {
		commands = append(commands, p.DeleteCommand)
	}
	return commands
}

func (s *stage) undefine(t testing.TB, name string) {
	t.Helper()
	check(t, s.Dynamic().Resource(harness.NADs).Namespace("default").Delete(t.Context(), name, metav1.DeleteOptions{}))
}

// exists reports whether a pool exists.
func (s *stage) exists(t testing.TB, pool string) bool {
	t.Helper()
	_, err := s.of(harness.IPPools).Get(context.Background(), pool, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

func TestRetire_OnAnAPIServer(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	other, dropped := simple("other", "10.7.0.0/24"), simple("dropped", "10.8.0.0/24")
	check(t, s.CreateNAD(t.Context(), other))
	s.up(t, "worker-1", "other", other)
	check(t, s.CreateNAD(t.Context(), dropped))
	live := s.up(t, "worker-1", "live", dropped)
	s.up(t, "worker-1", "leaked", dropped).leak(t)
	const pool = "10.8.0.0-24"
	before := s.contents(t)
	keeps := func(what string, args ...string) {
		t.Helper()
		state, why := s.retire(t, 1, append(args, "--yes")...)
		equal(t, what, state, "Kept")
		contains(t, what, why, what)
		s.checkReleased(t, before)
	}
	keeps("leads to it", pool)
	s.undefine(t, "dropped")
	keeps("1 in use", pool)
	live.del(t)
	live.forceDelete(t)
	before = s.contents(t)
	equal(t, "unused while it has an allocation", len(s.unused(t)), 0)

	state, _ := s.retire(t, 0, pool, "--dry-run")
	equal(t, "a dry run", state, "WouldBeRetired")
	s.checkReleased(t, before)
	s.patch(t, harness.IPPools, pool, `{"metadata":{"finalizers":["example.com/x"]}}`)
	keeps("metadata.finalizers", pool)
	s.patch(t, harness.IPPools, pool, `{"metadata":{"finalizers":null}}`)

	// The reconciler's own account may not delete pools: nothing at all is written.
	own := s.applied(t, "../deploy/deployment")
	out := s.productAs(t, own, "pools", "retire", pool, "--yes", "--confirm-after", "0", "--agents=auto",
		"--reconciler-namespace", metav1.NamespaceSystem)
	out.exits(t, 2)
	contains(t, "without the right", out.stderr, "nothing was written: delete IPPool kube-system/"+pool+": forbidden")
	s.checkReleased(t, before)

	// Beside one that is kept.
	both := s.product(t, "pools", "retire", "10.7.0.0-24", pool, "--yes", "--confirm-after", "0")
	both.exits(t, 1)
	var d retired
	check(t, json.Unmarshal([]byte(both.stdout), &d))
	equal(t, "what became of both", d.Pools[0].State+" "+d.Pools[1].State, "Kept Retired")
	equal(t, "the other pool exists", s.exists(t, "10.7.0.0-24"), true)
	equal(t, "the pool exists", s.exists(t, pool), false)
	s.checkReleased(t, before, pool+" 2", "reservation 10.8.0.2")
	contains(t, "history", s.product(t, "history", "pool/"+pool).stdout, `"what": "Retired"`)

	again := s.up(t, "worker-1", "again", dropped)
	again.del(t)
	again.forceDelete(t)
	command := s.unused(t)
	equal(t, "commands for unused pools", len(command), 1)
	args, isOurs := strings.CutPrefix(command[0], "ip-reconcile ")
	equal(t, command[0]+" is ours", isOurs, true)
	s.product(t, append(strings.Fields(args), "--yes", "--confirm-after", "0")...).exits(t, 0)
	equal(t, "the empty pool exists", s.exists(t, pool), false)
	equal(t, "the other pool exists", s.exists(t, "10.7.0.0-24"), true)
}

func TestRBAC_PeopleRetirePools(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	check(t, s.CreateNAD(t.Context(), simple("other", "10.7.0.0/24")))
	gone := simple("gone", "10.8.0.0/24")
	s.up(t, "worker-1", "leaked", gone).leak(t)
	person := s.person(t, "ip-reconcile-recover")
	out := s.productAs(t, person, "pools", "retire", "10.8.0.0-24", "--yes", "--confirm-after", "0")
	out.exits(t, 0)
	containsNot(t, "what it says", out.stderr, "cannot list", "cannot get", "ippools")
	equal(t, "the pool exists", s.exists(t, "10.8.0.0-24"), false)
}

// A plan has the removal of a pool, and apply removes it only if that still stands.
func TestRetire_ByAPlan(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	check(t, s.CreateNAD(t.Context(), simple("other", "10.7.0.0/24")))
	gone := simple("gone", "10.8.0.0/24")
	s.up(t, "worker-1", "leaked", gone).leak(t)
	s.up(t, "worker-1", "elsewhere", simple("other", "10.7.0.0/24")).leak(t)
	file := filepath.Join(t.TempDir(), "plan.json")
	out := s.product(t, "plan", "--retire", "10.8.0.0-24", "--output-file", file, "--confirm-after", "0")
	out.exits(t, 0)
	var d struct{ Items, Pools []struct{ Pool string } }
	check(t, json.Unmarshal([]byte(out.stdout), &d))
	equal(t, "what is planned", fmt.Sprint(d), "{[{kube-system/10.8.0.0-24}] [{kube-system/10.8.0.0-24}]}")

	apply := func(code int) retired {
		t.Helper()
		out := s.product(t, "apply", file, "--yes", "--confirm-after", "0")
		out.exits(t, code)
		var d retired
		check(t, json.Unmarshal([]byte(out.stdout), &d))
		return d
	}
	check(t, s.CreateNAD(t.Context(), gone))
	equal(t, "with its definition again", apply(1).Retirements[0].State, "Kept")
	equal(t, "the pool exists", s.exists(t, "10.8.0.0-24"), true)
	s.undefine(t, "gone")
	equal(t, "without it", apply(0).Retirements[0].State, "Retired")
	equal(t, "the pool exists", s.exists(t, "10.8.0.0-24"), false)
	equal(t, "another pool exists", s.exists(t, "10.7.0.0-24"), true)
	equal(t, "once more", apply(0).Retirements[0].State, "Absent")
}

// The slice of a deleted Node is a finding once no pod is bound to it, and is deleted 40 s later at the earliest.
func TestRetire_SlicesWithoutNode(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-9")
	n := network("sliced", harness.IPAM{"range": "10.4.0.0/16", "node_slice_size": "/24"})
	check(t, s.CreateNAD(t.Context(), n))
	s.slices(t, "sliced", "worker-1", "10.4.1.0/24", "worker-9", "10.4.9.0/24")
	s.up(t, "worker-1", "live", n)
	leaked := s.up(t, "worker-9", "leaked", n)
	equal(t, "findings while the Node exists", len(s.product(t, "check").found("SliceWithoutNode")), 0)
	check(t, s.Client().CoreV1().Nodes().Delete(t.Context(), "worker-9", metav1.DeleteOptions{}))
	equal(t, "findings while a pod is bound to it", len(s.product(t, "check").found("SliceWithoutNode")), 0)
	leaked.leak(t)
	found := s.product(t, "check").found("SliceWithoutNode")
	if len(found) != 1 || !strings.Contains(found[0].Message, "worker-9-10.4.9.0-24 is the slice of worker-9") {
		t.Fatalf("findings: %+v", found)
	}
	began := time.Now()
	state, why := s.retire(t, 0, "--slices-without-node", "--yes")
	equal(t, "the slice: "+why, state, "Retired")
	if took := time.Since(began); took < 40*time.Second {
		t.Errorf("its Node was missing for %s", took)
	}
	equal(t, "it exists", s.exists(t, "worker-9-10.4.9.0-24"), false)
	equal(t, "the other slice exists", s.exists(t, "worker-1-10.4.1.0-24"), true)
}

// ADDs and DELs by whereabouts' plugin, of a network that no definition has, race with retirements of its pool. No
// allocation is lost, and no address is assigned twice.
func TestRetire_RacedByADDs(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	check(t, s.CreateNAD(t.Context(), simple("other", "10.7.0.0/24")))
	n := simple("raced", "10.8.0.0/24")
	const pool = "10.8.0.0-24"
	users, changes := newAddresses(), make(chan struct{}, 1)
	touched := func() { // after each ADD and DEL the pool may be there again
		select {
		case changes <- struct{}{}:
		default:
		}
	}
	one := func(p *pod) error {
		a, address, err := p.begin(n, users)
		if err != nil {
			return err
		}
		// How far a retirement has come when the allocation is looked for is left to chance: that is the race.
		time.Sleep(rand.N(300 * time.Millisecond))
		o, err := s.of(harness.IPPools).Get(context.Background(), pool, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("the pool of %s: %w", address, err)
		}
		id, _, _ := unstructured.NestedString(o.Object, "spec", "allocations",
			address[strings.LastIndexByte(address, '.')+1:], "id")
		if id != a.Sandbox.ID {
			return fmt.Errorf("the allocation of %s is %q, want %s", address, id, a.Sandbox.ID)
		}
		touched()
		err = p.end(a, address, users)
		touched()
		return err
	}
	var callers sync.WaitGroup
	done := make(chan struct{})
	for i, node := range []string{"worker-1", "worker-2"} {
		p := s.pending(t, node, fmt.Sprint("caller-", i))
		callers.Go(func() {
			for range 12 {
				if err := one(p); err != nil {
					t.Errorf("%s: %v", p.Name, err)
					return
				}
				// The pool is empty only while both pause, and the next ADD must not begin when a retirement ends.
				time.Sleep(rand.N(1500 * time.Millisecond))
			}
		})
	}
	go func() { callers.Wait(); close(done) }()
	states := map[string]int{}
	for isOver := false; !isOver; {
		if !s.exists(t, pool) {
			select {
			case <-done:
				isOver = true
			case <-changes:
			}
			continue
		}
		select {
		case <-done:
			isOver = true
		default:
		}
		out := s.product(t, "pools", "retire", pool, "--yes", "--confirm-after", "0")
		if out.code == 2 && strings.Contains(out.stderr, "no pool has the name") {
			continue // it was not there when the product looked
		}
		var d retired
		check(t, json.Unmarshal([]byte(out.stdout), &d))
		states[d.Pools[0].State]++
	}
	if s.exists(t, pool) {
		state, why := s.retire(t, 0, pool, "--yes")
		states[state]++
		equal(t, "the last one: "+why, state, "Retired")
	}
	added := users.count()
	t.Logf("%d ADDs, retirements: %v", added, states)
	if added < 20 || states["Retired"] < 2 || states["Kept"] == 0 {
		t.Errorf("there was no race: %d ADDs, %v", added, states)
	}
	check(t, s.Client().CoreV1().Pods("default").DeleteCollection(t.Context(),
		metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}, metav1.ListOptions{}))
}
