package view_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// poolsJSON is the document of all pools of an observation.
func poolsJSON(t *testing.T, parts ...Part) (string, *usage.Pools) {
	t.Helper()
	j := Judged(Observe(append(parts, Pod("bystander"))...), facts.Policy{})
	u := usage.Of(j)
	text, err := json.Marshal(view.NewPoolsReport(&reconciler.Result{Assessment: j}, u))
	if err != nil {
		t.Fatal(err)
	}
	return string(text), u
}

func TestCount_ExactNumberOrString(t *testing.T) {
	for _, c := range []struct{ cidr, pool, want string }{
		{"10.0.0.0/29", "10.0.0.0-29", `6`},
		{"fd00::/75", "fd00---75", `9007199254740990`},
		{"fd00::/74", "fd00---74", `"18014398509481982"`},
		{"fd00::/64", "fd00---64", `"18446744073709551614"`},
	} {
		text, u := poolsJSON(t, NAD("a", WhereaboutsConfig(c.cidr, "")), Pool(c.pool, c.cidr))
		if !strings.Contains(text, `"usable":`+c.want+`,`) {
			t.Errorf("%s: %s", c.cidr, text)
		}
		var back view.PoolsReport
		if err := json.Unmarshal([]byte(text), &back); err != nil || back.Pools[0].Usable.Cmp(u.All[0].Usable) != 0 {
			t.Errorf("%s is read back as %v: %v", c.cidr, back.Pools[0].Usable, err)
		}
	}
}

func TestPools_FreeRangesAreBounded(t *testing.T) {
	var allocs []Allocation
	for i := 2; i < 200; i += 2 {
		allocs = append(allocs, Alloc(fmt.Sprint(i), fmt.Sprint("default/p", i), "box", "net1"))
	}
	j := Judged(Observe(NAD("a", WhereaboutsConfig("10.0.0.0/24", "")), Pool("10.0.0.0-24", "10.0.0.0/24", allocs...),
		Pod("bystander")), facts.Policy{})
	u := usage.Of(j)
	p := view.NewPoolReport(&reconciler.Result{Assessment: j}, u, u.All).Pools[0]
	if len(p.FreeRanges) != 20 || p.MoreFreeRanges != 80 || p.FreeRanges[0] != "10.0.0.1" {
		t.Errorf("%d ranges and %d more: %v", len(p.FreeRanges), p.MoreFreeRanges, p.FreeRanges)
	}
}

// How many addresses are free is unknown while reservations are, and how many are usable is not.
func TestPools_WhileReservationsAreUnknown(t *testing.T) {
	text, _ := poolsJSON(t, NAD("a", WhereaboutsConfig("10.0.0.0/29", "")), Pool("10.0.0.0-29", "10.0.0.0/29"),
		func(o *Observed) { o.Reservations = facts.Unknown[[]*ippool.Reservation](errors.New("forbidden")) })
	for _, want := range []string{`"usable":6,`, `"outside":0,"blocked":null,"free":null,"fill":null`,
		`"unknown":"reservations, which keep addresses from ADDs, are unknown: forbidden"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the document lacks %s: %s", want, text)
		}
	}
}
