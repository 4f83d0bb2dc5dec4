package reconciler_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// One pool's patches always fail, and it has many items.
func TestAPoolWithManyItemsWhosePatchesFailDoesNotKeepTheOthers(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 1100)
		s.leaks(redPool, 3)
		s.fault = func(call, object string) (error, bool) {
			if call == "patch" && object == bluePool {
				return errServer, false
			}
			return nil, false
		}
		r := s.reconciler(nil)
		r.Options.AllowMassRelease = true
		out, took := run(t, r)
		left := 0
		for name := range s.stored() {
			if strings.HasPrefix(name, redPool) {
				left++
			}
		}
		if left > 0 {
			t.Errorf("after %s %d entries of the other pool were not released: %v", took, left, refusalCounts(out))
		}
	})
}

// An admission policy denies what is written to one pool.
func TestAPoolThatMayNotBeWrittenDoesNotKeepTheOthers(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 1100)
		s.leaks(redPool, 3)
		s.fault = func(call, object string) (error, bool) {
			if call == "patch" && object == bluePool {
				return fmt.Errorf("patch IPPool: %w", reconciler.ErrForbidden), false
			}
			return nil, false
		}
		r := s.reconciler(nil)
		r.Options.AllowMassRelease = true
		out, _ := run(t, r)
		for name := range s.stored() {
			if strings.HasPrefix(name, redPool) {
				t.Errorf("%s was not released: %v", name, refusalCounts(out))
			}
		}
	})
}
