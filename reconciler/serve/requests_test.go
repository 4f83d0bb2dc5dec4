package serve

import (
	"errors"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

func TestAChangeDuringAPassLeadsToAnotherCachePass(t *testing.T) {
	for name, during := range map[string]func(c *cluster, s *Server){
		"a cache pass":            func(c *cluster, s *Server) { c.large = 2 * time.Second; s.Requests.Changed() },
		"a full pass":             func(c *cluster, s *Server) { c.slow = 2 * time.Second; s.Requests.FullPass() },
		"what follows a change":   func(c *cluster, s *Server) { c.large = 400 * time.Millisecond; s.Requests.Changed() },
		"a pass that fails":       func(c *cluster, s *Server) { c.unverified = errors.New("cannot be read"); s.Requests.Changed() },
		"the settling of a burst": func(c *cluster, s *Server) { s.Requests.Changed() },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster()
			serving(t, c, reconciler.Options{AllowMassRelease: true}, func(t *testing.T, s *Server) {
				c.changesUnknown = true // so that only a cache pass releases anything
				during(c, s)
				for wait := settleFor / 2; wait < 4*time.Second; wait *= 2 {
					c.sleep(wait)
					c.unverified = nil
					c.has("10.1.0.0-24", "10.1.0.0/24")
					patches := len(c.patches)
					s.Requests.Changed()
					c.sleep(30 * time.Second)
					if len(c.patches) != patches+1 {
						t.Fatalf("%d patches more, for a change %s later", len(c.patches)-patches, wait)
					}
					during(c, s)
				}
			})
		})
	}
}

func TestARequestBeforeTheServerRunsIsServed(t *testing.T) {
	r := NewRequests()
	r.Changed()
	r.FullPass()
	r.FullPass() // does not block
	if !taken(r.changed) || !taken(r.fullPass) || taken(r.changed) || taken(r.fullPass) {
		t.Error("each kind of request must be there, once")
	}
}

// A pass that is requested does not replace one that is planned: what the plan was for may
// not be known to the requested one.
func TestAPlannedPassStaysDueAfterARequestedOne(t *testing.T) {
	noon := time.Now()
	d := due{asap: true, at: noon.Add(time.Minute)}
	if !d.take(noon) || d.take(noon) {
		t.Error("the requested one is due once")
	}
	if !d.take(noon.Add(time.Minute)) || d.take(noon.Add(time.Hour)) {
		t.Error("the planned one is due once")
	}
	d.after(time.Hour)
	d.after(time.Minute)
	d.after(2 * time.Hour)
	if in := time.Until(d.at); in > time.Minute {
		t.Errorf("due in %s, and not at the earliest of the times", in)
	}
}
