package serve

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// refreshing is a cluster of which the second check's reading of everything takes time.
type refreshing struct {
	view
	takes time.Duration
	spent *time.Duration
	n     *int
}

func (r refreshing) Relist(ctx context.Context, o *judge.Observation) (*judge.Observation, error) {
	time.Sleep(r.takes)
	*r.spent += r.takes
	*r.n++
	return r.view.Relist(ctx, o)
}

// What follows a change must not read everything again and again.
func TestFollowingChangesLeavesMostOfThePause(t *testing.T) {
	large(t, reconciler.Options{}, func(t *testing.T, c *cluster, s *Server) {
		var spent time.Duration
		n := 0
		s.Quick.Source = refreshing{view{c, false}, 300 * time.Millisecond, &spent, &n}
		began := time.Now()
		for i := range 18 {
			name := fmt.Sprintf("10.1.%d.0-24", i)
			c.has(name, fmt.Sprintf("10.1.%d.0/24", i))
			s.Requests.Changed()
			c.sleep(450 * time.Millisecond)
		}
		if took := time.Since(began); spent > took/3 {
			t.Errorf("of %s, %s went by reading everything for the second check, %d times", took, spent, n)
		}
	})
}

// A full pass that is asked for does not wait for the end of a pause.
func TestAFullPassIsNotPutOffByAPause(t *testing.T) {
	c := newCluster()
	c.large = 2 * time.Second
	serving(t, c, reconciler.Options{}, func(t *testing.T, s *Server) {
		s.Requests.Changed()
		c.sleep(settleFor + c.large + 100*time.Millisecond)
		asked := time.Now()
		done := make(chan struct{})
		go func() { s.askForFullPass(t.Context()); close(done) }()
		<-done
		if took := time.Since(asked); took > 6*time.Second {
			t.Errorf("a full pass that takes no time ended %s after it was asked for", took)
		}
	})
}

// One object of which only a cache pass tells must not stop all that could be followed.
func TestWhatMayBeFollowedIsNotPutOffByWhatMayNot(t *testing.T) {
	c := newCluster()
	c.large = 2 * time.Second
	c.pools["10.1.0.0-24"] = aPool("10.1.0.0-24", "10.1.0.0/24")
	serving(t, c, reconciler.Options{AllowMassRelease: true}, func(t *testing.T, s *Server) {
		s.Requests.Changed()
		c.sleep(settleFor + c.large + 100*time.Millisecond)
		c.changesUnknown = true // a label of a Node
		s.Requests.Changed()
		c.sleep(300 * time.Millisecond)
		c.has("10.1.0.0-24", "10.1.0.0/24")
		s.Requests.Changed()
		found := time.Now()
		for len(c.patches) == 0 {
			c.sleep(100 * time.Millisecond)
		}
		if took := time.Since(found); took > 8*time.Second {
			t.Errorf("freed after %s", took)
		}
	})
}
