package reconciler_test

import (
	"context"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// A patch is under way when its answer is lost, and lands after the pool was read again.
type landsLate struct {
	*simulator
	patch func()
	tries int
}

func (l *landsLate) PatchPool(ctx context.Context, p *ippool.Pool, patch []byte) (string, error) {
	l.tries++
	switch {
	case l.tries == 1:
		l.patch = func() { _, _ = l.simulator.PatchPool(context.Background(), p, patch) }
		return "", errServer
	case l.patch != nil:
		l.patch()
		l.patch = nil
	}
	return l.simulator.PatchPool(ctx, p, patch)
}

func TestAReleaseWhosePatchLandsLateIsReported(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.entry(bluePool, 1, "default/gone", "box", true)
		r := s.reconciler(t)
		r.Writer = &landsLate{simulator: s}
		out, _ := run(t, r)
		same(t, "stored", len(s.stored()), 0)
		same(t, "released", len(out.Released), 2)
	})
}
