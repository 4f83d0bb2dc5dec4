package serve

import (
	"context"
	"fmt"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// busy is a cluster of which whereabouts' Lease is somebody else's all the time.
type busy struct {
	*cluster
	holds *[]time.Time
}

func (b busy) Hold(context.Context, string, []string, func(context.Context, *reconciler.Hold) error) error {
	*b.holds = append(*b.holds, time.Now())
	time.Sleep(200 * time.Millisecond)
	return reconciler.ErrLeaseBusy
}

// What was refused while it was followed is left alone for a while, as after a pass, and counted.
func TestWhatIsRefusedWhileFollowingIsLeftAloneAndCounted(t *testing.T) {
	large(t, reconciler.Options{}, func(t *testing.T, c *cluster, s *Server) {
		var holds []time.Time
		s.Quick.Writer = busy{c, &holds}
		var refs []string
		for i := range 14 { // a pool that leaks one entry after the other
			refs = append(refs, fmt.Sprint("default/gone-", i))
			c.pools["10.1.0.0-24"] = aPool("10.1.0.0-24", "10.1.0.0/24", refs...)
			s.Requests.Changed()
			c.sleep(500 * time.Millisecond)
		}
		var m dto.Metric
		if err := s.Recorder.Metrics.refused.WithLabelValues(string(reconciler.LeaseBusy)).Write(&m); err != nil {
			t.Fatal(err)
		}
		counted := m.GetCounter().GetValue()
		if len(holds) > 5 {
			t.Errorf("asked for the busy Lease %d times in 7 s for one pool", len(holds))
		}
		if counted == 0 {
			t.Errorf("refused_total{reason=LeaseBusy} is %v", counted)
		}
	})
}
