package restore

import (
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// past is a State as judging reads it, where nothing is known of items.
type past struct{ State }

func (past) Expected() map[string]time.Time { return nil }
func (past) Of(judge.ID) judge.ItemHistory  { return judge.ItemHistory{} }
func (s State) judged(o *Observed, policy facts.Policy) *judge.Judgement {
	o.Past = past{s}
	return Judged(o, policy).Judgement
}

// disturb puts what shows or ends a restore into an observation.
func disturb(c Random, s State, o *Observed, pass int) {
	o.Now = Now.Add(time.Duration(pass) * 10 * time.Minute)
	switch c.IntN(30) {
	case 0:
		o.Revision = uint64(1 + c.IntN(100))
	case 1:
		o.Restored = "its watches say so"
	case 2:
		o.MissingReports = map[string]time.Time{c.Node(): o.Now.Add(-time.Minute)}
	case 3:
		o.Acknowledged = s.last.ID
	case 4:
		o.Watched = true
	}
	for _, r := range o.Reports.Or(nil) {
		if c.OneIn(50) {
			r.RestoreNonce = fmt.Sprint("nonce-", c.IntN(9))
		}
		r.ResourceVersion, r.LeaseVersion = fmt.Sprint(100*pass+c.IntN(103)), fmt.Sprint(100*pass)
		if c.OneIn(2) {
			r.LeaseVersion, r.ConfirmedAt = fmt.Sprint(100*pass+c.IntN(103)), o.Now
		}
	}
	for _, p := range o.Pools {
		p.ResourceVersion = fmt.Sprint(100*pass + c.IntN(103))
	}
	ReadByQuorum(o.Observation)
}

// Eight passes over each of many clusters that are restored. What is made of a State does not change it, and is the
// same each time.
func TestState_IsAValue(t *testing.T) {
	count := map[string]int{}
	for seed := range Seeds(300) {
		c := NewRandom(seed, 80)
		o, policy := ObserveDistinct(c.Cluster()), c.Policy()
		s := State{IDs: func(n int) string { return fmt.Sprint("restore-", n) }}
		for pass := range 8 {
			disturb(c, s, o, pass)
			stored := fmt.Sprintf(
				`{"id":"other-%d","replaces":%q,"since":"5","awaited":{"worker-1":true,"worker-9":true}}`, pass, s.last.ID)
			s = s.BeginRead()
			before := fmt.Sprintf("%+v", s)
			next, restored := s.Observe(o.Observation)
			o.Restored = restored
			j := next.judged(o, policy)
			observed, settled := fmt.Sprintf("%+v", next), next.Settle(j)
			text := fmt.Sprintf("%+v", settled)
			read, err := settled.Read(stored, o.Now)
			if err != nil {
				t.Fatal(err)
			}
			written, _, _ := settled.Write(stored, o.Now)
			for _, made := range []State{settled, read, written, settled.Detected("a live read", o.Now.Add(time.Second)),
				settled.Wrote(nil)} {
				made, _ = made.Observe(o.Observation)
				made.Settle(j)
			}
			again, _ := s.Observe(o.Observation)
			for says, are := range map[string][2]string{
				"before the pass": {before, fmt.Sprintf("%+v", s)},
				"observed":        {observed, fmt.Sprintf("%+v", next)},
				"observed again":  {observed, fmt.Sprintf("%+v", again)},
				"settled":         {text, fmt.Sprintf("%+v", settled)},
				"settled again":   {text, fmt.Sprintf("%+v", next.Settle(j))},
			} {
				if are[0] != are[1] {
					t.Fatalf("seed %d, %s: it was\n%s\nand is\n%s", seed, says, are[0], are[1])
				}
			}
			for says, is := range map[string]bool{"begun": next.IsNewerThan(s), "taken over": read.IsNewerThan(settled),
				"awaiting": len(settled.last.Pending) > 0, "settled": settled.last.IsSettled, "missing": len(settled.last.
						MissingSince) > 0, "in doubt": len(settled.last.Taints) > 0} {
				if is {
					count[says]++
				}
			}
			s = settled
			_, o = c.Changes(o)
		}
	}
	if t.Logf("passes: %v", count); len(count) != 6 && !testing.Short() {
		t.Errorf("passes: %v; want some of each kind", count)
	}
}
