package usage_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

func TestFreeAddressesThatNoADDReachesInTimeAreNoted(t *testing.T) {
	reserved := func(from, to int) Part {
		var all []Part
		for i := from; i <= to; i++ {
			all = append(all, Reservation(fmt.Sprint("10.0.0.", i), "default/x", LongAgo))
		}
		return All(all...)
	}
	var entries []Allocation
	for i := 1; i <= 30; i++ {
		entries = append(entries, Alloc(fmt.Sprint(i), fmt.Sprint("default/p", i), "box", "net1"))
	}
	define := NAD("a", WhereaboutsConfig("10.0.0.0/24", ""))
	pool := Pool("10.0.0.0-24", "10.0.0.0/24")
	for _, c := range []struct {
		says  string
		noted bool
		parts []Part
	}{
		{"25 come before the first free one", true, []Part{define, pool, reserved(1, 25)}},
		{"24 do", false, []Part{define, pool, reserved(1, 24)}},
		{"they come after it", false, []Part{define, pool, reserved(2, 40)}},
		{"they have entries here", false, []Part{define, Pool("10.0.0.0-24", "10.0.0.0/24", entries...), reserved(1, 30)}},
		{"reservations do not count", false, []Part{NAD("a", WhereaboutsConfig("10.0.0.0/24", "",
			`"enable_overlapping_ranges":false`)), pool, reserved(1, 30)}},
		{"another definition begins behind them", false,
			[]Part{define, NAD("b", WhereaboutsConfig("10.0.0.0/24", "", `"range_start":"10.0.0.30"`)), pool, reserved(1, 30)}},
		{"nothing is free", false, []Part{NAD("a", WhereaboutsConfig("10.0.0.0/24", "", `"range_end":"10.0.0.30"`)), pool,
			reserved(1, 30)}},
	} {
		u := usage.Of(judged(append(c.parts, Pod("bystander"))...))
		if noted := strings.Contains(strings.Join(u.Notes, " "),
			"ADDs to pool kube-system/10.0.0.0-24 fail"); noted != c.noted {
			t.Errorf("%s: notes %q", c.says, u.Notes)
		}
	}
}
