package reconciler

import (
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// TestHistoryKeepsNothingOfWhatIsGone: two thousand pods come, leak and go.
func TestHistoryKeepsNothingOfWhatIsGone(t *testing.T) {
	h := NewHistory()
	pass := func(parts ...Part) {
		o := Observe(parts...)
		o.Past = h
		j := Judged(o, judge.Policy{})
		h.Remember(j)
		h.plan(j, Options{ConfirmAfter: time.Hour})
	}
	for i := range 20 {
		var entries []Allocation
		var pods []Part
		for n := range 100 {
			name := fmt.Sprint("web-", 100*i+n)
			entries = append(entries, Alloc(fmt.Sprint(n+1), "default/"+name, "box-"+name, "net1"))
			pods = append(pods, Pod(name), Reservation(fmt.Sprint("10.0.0.", n+1), "default/"+name, time.Hour))
		}
		pool := Pool("10.0.0.0-24", "10.0.0.0/24", entries...)
		pass(append(pods, pool)...)
		pass(pool)
		if n := len(h.candidates); n != 100 {
			t.Fatalf("%d candidates", n)
		}
	}
	pass(Pool("10.0.0.0-24", "10.0.0.0/24"))
	if n := len(h.candidates) + len(h.released) + len(h.repairs); n != 0 {
		t.Errorf("%d things are remembered of nothing", n)
	}
}
