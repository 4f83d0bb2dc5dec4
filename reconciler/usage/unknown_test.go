package usage_test

import (
	"errors"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// What other pools reserve is free for nobody, so nothing is known to be free while reservations are unknown. A network
// whose ADDs read none is counted as ever.
func TestWhatIsFreeWhileReservationsAreUnknown(t *testing.T) {
	noReservations := func(o *Observed) {
		o.Reservations = facts.Unknown[[]*ippool.Reservation](errors.New("forbidden"))
	}
	alone := NAD("a", WhereaboutsConfig("10.0.0.0/29", "", `"enable_overlapping_ranges":false`))
	for says, c := range map[string]struct {
		isKnown bool
		parts   []Part
	}{
		"they are known":                 {true, []Part{NAD("a", WhereaboutsConfig("10.0.0.0/29", ""))}},
		"they are unknown":               {false, []Part{NAD("a", WhereaboutsConfig("10.0.0.0/29", "")), noReservations}},
		"they are unknown, and not read": {true, []Part{alone, noReservations}},
	} {
		p := theOnly(t, usage.Of(judged(append([]Part{Pod("bystander"), pool29(1)}, c.parts...)...)))
		if (p.FreeUnknown == "") != c.isKnown || p.Usable.Int64() != 6 || p.Free.Int64() != 5 {
			t.Errorf("%s: unknown is %q; %s of %s are free", says, p.FreeUnknown, p.Free, p.Usable)
		}
	}
}
