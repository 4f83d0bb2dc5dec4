package judge_test

import (
	"fmt"
	"net/netip"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

func TestAnIndexWithChangesStandsForWhatThereIsNow(t *testing.T) {
	t.Parallel()
	for seed := range Seeds(3000) {
		f, o, policy := ChangedIndex(NewRandom(seed, 2))
		is, want := judge.Judge(facts.New(f.Observation(), o.Past, policy), o.Past, nil), Judged(o, policy).Judgement
		if got, want := Describe(is), Describe(want); !slices.Equal(got, want) {
			t.Fatalf("seed %d: got\n%s\nwant\n%s", seed, Missing(got, want), Missing(want, got))
		}
	}
}

func TestWhatIsAskedForAloneIsJudgedAsWithAllTheRest(t *testing.T) {
	t.Parallel()
	for seed := range Seeds(3000) {
		c := NewRandom(seed, 3)
		f, o, policy := ChangedIndex(c)
		var asked []netip.Addr
		for range 1 + c.IntN(8) {
			asked = append(asked, netip.MustParseAddr(c.IP()))
		}
		var want []string
		all := Judged(o, policy)
		for _, it := range slices.Concat(all.Allocations, all.Reservations) {
			if slices.Contains(asked, it.Address()) && !slices.ContainsFunc(it.Related(),
				func(w *judge.Item) bool { return !slices.Contains(asked, w.Address()) }) {
				want = append(want, DescribeItem(it))
			}
		}
		got := Describe(judge.JudgeAt(f, o.Past, nil, asked))
		if missing := Missing(want, got); len(missing) > 0 {
			t.Fatalf("seed %d: of %v got\n%s\nbut not\n%s", seed, asked, got, missing)
		}
	}
}

// allocated is how many bytes and objects work allocates.
func allocated(work func()) (bytes, objects uint64) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, after.Mallocs - before.Mallocs
}

func TestJudgingTwiceAsMuchAllocatesTwiceAsMuch(t *testing.T) {
	for says, reservations := range map[string]bool{"pools alone": false, "with reservations": true} {
		t.Run(says, func(t *testing.T) {
			one, two := cluster(perPool, reservations), cluster(2*perPool, reservations)
			a, _ := allocated(func() { Judged(one, facts.Policy{}) })
			b, _ := allocated(func() { Judged(two, facts.Policy{}) })
			if b > a*5/2 {
				t.Errorf("%d bytes for %d, %d for twice as many", a, perPool, b)
			}
		})
	}
}

// Under whereabouts' Lease a second check must cost what it checks.
func TestARecheckAllocatesByWhatIsAskedAndNotByTheCluster(t *testing.T) {
	cost := func(n int) uint64 {
		o := cluster(n, true)
		f := facts.New(o.Observation, o.Past, facts.Policy{})
		it := o.Pools[0].Allocations[17]
		name := types.NamespacedName{Namespace: it.Owner.Namespace, Name: it.Owner.Name}
		gone := &facts.Live{Pods: map[types.NamespacedName]*podstate.Pod{name: nil}}
		bytes, _ := allocated(func() {
			f = f.With(gone)
			at := []netip.Addr{it.Address}
			if j := judge.JudgeAt(f, o.Past, nil, at); len(j.Allocations) != 1 || len(j.Reservations) != 1 ||
				j.Allocations[0].Reason != judge.PhantomPod {
				t.Error(fmt.Sprint(len(j.Allocations), len(j.Reservations), RulingOf(j.Allocations[0])))
			}
		})
		return bytes
	}
	if small, large := cost(perPool/5), cost(2*perPool); large > small+2048 {
		t.Errorf("%d bytes among %d, %d among %d", small, perPool/5, large, 2*perPool)
	}
}

// doubting has the doubts of a process that has just detected a restore of etcd.
type doubting struct{ facts.Doubts }

func (doubting) SawReports() bool                { return false }
func (doubting) Expected() map[string]time.Time  { return nil }
func (doubting) DoubtsTaint(*podstate.Node) bool { return true }
func (doubting) LosesNode(string) string         { return "" }
func (doubting) DoubtsStatus(time.Time) bool     { return true }

// A live read may be the first that shows a restore: a taint of the backup then proves nothing in the same check.
func TestIndex_WithDoubts(t *testing.T) {
	o := Observe(UsualPool, UsualPod(), dead1)
	live := &facts.Live{Now: o.Now, Pods: map[types.NamespacedName]*podstate.Pod{PodName("web-9"): {}}}
	f := facts.New(o.Observation, nil, facts.Policy{AgentsRequired: true}).With(live)
	judged := func(f *facts.Facts) *judge.Item {
		return judge.JudgeAt(f, nil, nil, []netip.Addr{netip.MustParseAddr("10.0.0.5")}).Allocations[0]
	}
	if it := judged(f); it.Verdict != judge.Stale {
		t.Fatalf("on a node that is out of service it is %s, %s", it.Verdict, it.Reason)
	}
	f = f.WithDoubts(doubting{})
	if it := judged(f); it.Verdict == judge.Stale {
		t.Errorf("by a taint in doubt it is %s, %s", it.Verdict, it.Reason)
	}
	if f.Observation().Pods[PodName("web-9")] == nil {
		t.Error("the live read is forgotten")
	}
}
