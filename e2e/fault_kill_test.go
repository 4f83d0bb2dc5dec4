//go:build slow

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// quick is how long ADD and DEL may take when the holder of their Lease is dead. The Lease expires after 1.5 s by
// whereabouts' own rule, and they request it twice a second. A Lease that stays held fails them after 2 min.
const quick = time.Minute

// timed checks that an ADD or a DEL was in time, and returns the longest so far.
func timed(t testing.TB, what string, longest time.Duration, do func()) time.Duration {
	t.Helper()
	began := time.Now()
	do()
	took := time.Since(began)
	if took > quick {
		t.Errorf("%s took %s", what, took)
	}
	return max(longest, took)
}

// TestFaults_ReleaseKilledAtAnyWrite kills a run before and after each of its writes.
func TestFaults_ReleaseKilledAtAnyWrite(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2").withRaceDetector()
	check(t, s.CreateNAD(t.Context(), blue))
	keep := s.up(t, "worker-1", "keep", blue)
	kept := s.contents(t)
	var killedAt []string
	adds, dels, longest := 1, 0, time.Duration(0)
	for _, done := range []bool{false, true} {
		for at, going := 1, true; going; at++ {
			back := s.up(t, "worker-1", "back", blue).leak(t)
			s.up(t, "worker-2", "lost", blue).leak(t)
			nth := func(writes []string) bool { return len(writes) == at }
			k, killed := s.kill(t, nth, done, "run", "--confirm-after", "0", "--allow-mass-release")
			if going = killed; killed {
				killedAt = append(killedAt, k.last)
			}
			longest = timed(t, "an ADD", longest, func() { back = s.up(t, "worker-2", "back", blue) })
			stored := s.contents(t)
			s.isWhole(t, stored, keep, back)
			s.run(t, "--allow-mass-release").exits(t, 0)
			s.isWhole(t, s.contents(t), keep, back)
			longest = timed(t, "a DEL", longest, func() { back.del(t) })
			back.forceDelete(t)
			check(t, back.sandbox.Close())
			adds, dels = adds+3, dels+1
			s.run(t, "--allow-mass-release").exits(t, 0)
			s.checkReleased(t, kept)
			if t.Failed() {
				t.Fatalf("%d, done %v: %v", at, done, k.writes)
			}
		}
	}
	for _, write := range []string{"POST", "PUT leases/whereabouts", "DELETE overlapping", "PATCH ippools"} {
		if !slices.ContainsFunc(killedAt, func(at string) bool { return strings.Contains(at, write) }) {
			t.Errorf("nothing was killed at %s: %v", write, killedAt)
		}
	}
	t.Logf("killed at: %s", strings.Join(killedAt, ", "))
	s.sums(t, fmt.Sprintf("%d SIGKILLs at writes of a release, %d ADDs, %d DELs (the longest took %.1fs)", len(killedAt),
		adds, dels, longest.Seconds()))
}

// sums logs what the documentation quotes of a test that found nothing wrong and no remains.
func (s *stage) sums(t testing.TB, faults string) {
	t.Helper()
	released, repaired := 0, 0
	for _, w := range try(s.AuditLog().Next()).must(t) {
		if w.Program == "ip-reconcile" {
			released += len(w.Removed)
			repaired += len(w.Written)
		}
	}
	if !t.Failed() {
		t.Logf("faults: %s, %d released, %d repaired, 0 wrong, 0 remaining", faults, released, repaired)
	}
}

// isWhole checks that pods have their allocations and reservations.
func (s *stage) isWhole(t testing.TB, stored contents, pods ...*pod) {
	t.Helper()
	for _, p := range pods {
		for i, a := range p.attachments {
			name := strings.ReplaceAll(fmt.Sprint(a.Network.IPAM["range"]), "/", "-")
			key := p.ips[i][strings.LastIndex(p.ips[i], ".")+1:]
			contains(t, "the entry of "+p.Name, stored[name+" "+key], p.sandbox.ID, p.Name)
			contains(t, "the reservation of "+p.Name, stored["reservation "+p.ips[i]], p.Name)
		}
	}
}

// repairWrites are the writes of a repair: the Lease is taken, the allocation and its reservation are written, and the
// Lease is released. Each is recognized by the last write and those before it.
var repairWrites = []func(writes []string) bool{
	func(writes []string) bool { return len(writes) == 1 || last(writes, "leases/ip-reconcile") },
	func(writes []string) bool { return last(writes, "leases/whereabouts") },
	func(writes []string) bool { return last(writes, "PATCH ippools") },
	func(writes []string) bool { return last(writes, "POST kube-system/overlapping") },
	func(writes []string) bool {
		return strings.Contains(strings.Join(writes, "\n"), "POST kube-system/overlapping") &&
			last(writes, "leases/whereabouts")
	},
}

// A lostRecord is a pod whose allocation and reservation are lost, on a network of its own, and the write at which its
// repair is killed.
type lostRecord struct {
	at      func(writes []string) bool
	done    bool
	network harness.Network
	pool    string
	pod     *pod
	killed  string // at which write; "" for none
}

// unrecorded starts the pods, two for each write of a repair.
func (s *stage) unrecorded(t testing.TB, one *agent) (all []*lostRecord) {
	t.Helper()
	var content []any
	for i := range 2 * len(repairWrites) {
		c := &lostRecord{at: repairWrites[i/2], done: i%2 > 0, network: simple(fmt.Sprint("net-", i),
			fmt.Sprintf("10.7.%d.0/24", i)), pool: fmt.Sprintf("10.7.%d.0-24", i)}
		check(t, s.CreateNAD(t.Context(), c.network))
		c.pod = s.up(t, "worker-1", fmt.Sprint("live-", i), c.network).age(t, 10*time.Minute)
		content = append(content, c.pod.listed("Ready"))
		all = append(all, c)
	}
	one.writeReport(t, content...)
	for _, c := range all {
		s.patch(t, harness.IPPools, c.pool, `{"spec":{"allocations":{"1":null}}}`)
		s.unreserve(t, c.pod.ips[0])
	}
	return all
}

// TestFaults_RepairKilledAtAnyWrite kills repairs of different pools, five in parallel: each waits a
// minute, and all wait for one Lease.
func TestFaults_RepairKilledAtAnyWrite(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1").withRaceDetector()
	all := s.unrecorded(t, s.agent(t, "worker-1"))
	var together errgroup.Group
	together.SetLimit(5)
	for _, c := range all {
		together.Go(func() error {
			if k, killed := s.kill(t, c.at, c.done, "run", "--repair", "--pool", c.pool); killed {
				c.killed = k.last
			}
			return nil
		})
	}
	check(t, together.Wait())
	longest, killedAt, half := time.Duration(0), []string(nil), 0
	stored := s.contents(t)
	for _, c := range all {
		if c.killed != "" {
			killedAt = append(killedAt, c.killed)
		}
		if stored[c.pool+" 1"] == "" {
			continue // its address would be assigned again, which a repair prevents
		}
		if stored["reservation "+c.pod.ips[0]] == "" {
			half++
		}
		var next *pod
		longest = timed(t, "an ADD", longest, func() { next = s.up(t, "worker-1", "next-"+c.network.Name, c.network) })
		equal(t, "the address of the next pod", next.ips[0], strings.TrimSuffix(c.pod.ips[0], "1")+"2")
		longest = timed(t, "a DEL", longest, func() { next.del(t) })
		next.forceDelete(t)
	}
	s.product(t, "run", "--repair").exits(t, 0)
	stored = s.contents(t)
	for _, c := range all {
		s.isWhole(t, stored, c.pod)
	}
	equal(t, "entries and reservations", len(stored), 2*len(all))
	equal(t, "how many were killed", len(killedAt), len(all))
	t.Logf("killed at: %s", strings.Join(killedAt, ", "))
	s.sums(t, fmt.Sprintf("%d SIGKILLs at writes of a repair, of which %d left an entry without its reservation to the "+
		"next run (the longest ADD or DEL took %.1fs)",
		len(killedAt), half, longest.Seconds()))
}

// TestFaults_ControlPlaneDies kills the API server and etcd with SIGKILL, in turn and at any
// moment, while the product releases and repairs and pods start and end.
func TestFaults_ControlPlaneDies(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1", "worker-2").withRaceDetector()
	r := newFaultTrial(t, s, true, theNames(blue))
	m := r.mending(t)
	v := r.beginServe(t, s.Kubeconfig(), "--repair", "--confirm-after", "2s", "--cron", "@every 10s")
	oneShot := r.runs(t, s.Kubeconfig())
	rest := r.traffic(t, 3, 6)
	counts := r.restarts(t, rand.New(rand.NewPCG(3, 3)), 10)
	rest()
	within(5*time.Minute, time.Second, func() bool { return len(m.records(t)) == len(m.whole) })
	left := r.settle(t)
	oneShot()
	v.stop(t)
	equal(t, "what was damaged", m.records(t), m.whole)
	t.Logf("faults: %s, %s", inOrder(counts), r.verdict(t, left))
}

// restarts kills and starts the API server and etcd at least this often, and until that disturbed something.
func (r *faultTrial) restarts(t *testing.T, dice *rand.Rand, least int) map[string]int {
	t.Helper()
	s := r.stage
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	counts := map[string]int{}
	for n := 0; n < least || r.adds.Load() < 20; n++ {
		time.Sleep(time.Duration(1000+dice.IntN(5000)) * time.Millisecond) // at a random moment on purpose
		away := time.Duration(dice.IntN(3000)) * time.Millisecond
		if dice.IntN(2) == 0 {
			s.StopEtcd()
			time.Sleep(away)
			check(t, s.StartEtcd())
			check(t, s.WaitReady(ctx))
			counts["SIGKILLs of etcd"]++
			continue
		}
		s.StopAPI()
		time.Sleep(away)
		check(t, s.StartAPI(ctx))
		counts["SIGKILLs of the API server"]++
	}
	return counts
}
