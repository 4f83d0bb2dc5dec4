package view_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
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
	p := view.NewPoolReport(&reconciler.Result{Assessment: j}, u, u.All, nil).Pools[0]
	if len(p.FreeRanges) != 20 || p.MoreFreeRanges != 80 || p.FreeRanges[0] != "10.0.0.1" {
		t.Errorf("%d ranges and %d more: %v", len(p.FreeRanges), p.MoreFreeRanges, p.FreeRanges)
	}
}

func TestPools_NewRange(t *testing.T) {
	pool := func(cidr string, keys ...string) Part {
		var all []Allocation
		for _, key := range keys {
			all = append(all, Alloc(key, "default/x", "box-"+key, "net1"))
		}
		return Pool(strings.NewReplacer("/", "-", ":", "-").Replace(cidr), cidr, all...)
	}
	for _, c := range []struct {
		says, to, want string
		exclude        []string
		parts          []Part
	}{
		{"a smaller range", "10.0.0.0/30", "10.0.0.3 10.0.0.4", nil, []Part{pool("10.0.0.0/29", "1", "2", "3", "4")}},
		{"start and end", "10.0.0.2-10.0.0.3/29", "10.0.0.1 10.0.0.4", nil, []Part{pool("10.0.0.0/29", "1", "2", "3", "4")}},
		{"what is excluded", "10.0.0.0/29", "10.0.0.1 10.0.0.4 10.0.0.5", []string{"10.0.0.1", "10.0.0.4/31"},
			[]Part{pool("10.0.0.0/29", "1", "2", "4", "5")}},
		{"everything fits", "10.0.0.0/24", "", nil, []Part{pool("10.0.0.0/29", "1", "2")}},
		{"other pools do not count", "10.0.0.0/30", "", nil,
			[]Part{pool("10.0.0.0/29", "1"), Pool("red-10.0.0.0-29", "10.0.0.0/29", Alloc("5", "default/x", "b", "net1"))}},
		{"IPv6", "fd00::/126", "fd00::9", nil, []Part{pool("fd00::/64", "1", "9")}},
		{"a key that cannot be parsed", "10.0.0.0/24", "unknown", nil, []Part{pool("10.0.0.0/29", "x")}},
		{"a range that cannot be parsed", "10.0.0.0/24", "unknown", nil, []Part{pool("10.0.0.0", "1")}},
		{"a range whose keys are ambiguous", "10.0.0.0/24", "10.0.0.6", nil, []Part{pool("10.0.0.5/29", "1")}},
	} {
		t.Run(c.says, func(t *testing.T) {
			j := Judged(Observe(append(c.parts, Pod("bystander"))...), facts.Policy{})
			u := usage.Of(j)
			p := u.All[0]
			if strings.HasPrefix(p.Name, "red-") {
				p = u.All[1]
			}
			to, err := view.ParseNewRange(c.to, c.exclude)
			if err != nil {
				t.Fatal(err)
			}
			d := view.NewPoolReport(&reconciler.Result{Assessment: j}, u, []*usage.Pool{p}, to).Pools[0].NewRange
			if isOther := !strings.HasSuffix(c.to, "/29"); d.OtherPool != isOther && p.RangeText == "10.0.0.0/29" {
				t.Errorf("another pool: %v", d.OtherPool)
			}
			var got []string
			for _, a := range d.Outside {
				got = append(got, cmp.Or(a.IP, "unknown"))
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("outside: %q, want %q", text, c.want)
			}
		})
	}
}

// newRangeOf is what a new range means for the first pool of an observation.
func newRangeOf(t *testing.T, to string, parts ...Part) *view.PoolNewRange {
	t.Helper()
	j := Judged(Observe(parts...), facts.Policy{})
	r, err := view.ParseNewRange(to, nil)
	if err != nil {
		t.Fatal(err)
	}
	u := usage.Of(j)
	return view.NewPoolReport(&reconciler.Result{Assessment: j}, u, u.All[:1], r).Pools[0].NewRange
}

func TestPools_NewRange_WithoutAllocation(t *testing.T) {
	parts := []Part{
		NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")), Pool("10.0.0.0-24", "10.0.0.0/24"),
		Pod("lost", Carrying("10.0.0.40"), CreatedLongAgo), Pod("kept", Carrying("10.0.0.2"), CreatedLongAgo),
		Reservation("10.0.0.50", "default/gone", time.Hour), Reservation("10.0.0.3", "default/gone", time.Hour),
	}
	d := newRangeOf(t, "10.0.0.1-10.0.0.14/24", parts...)
	if len(d.OutsideReservations) != 1 || d.OutsideReservations[0].IP != "10.0.0.50" || len(d.Items) != 1 {
		t.Errorf("reservations outside: %v", d.OutsideReservations)
	}
	if len(d.OutsideUnrecorded) != 1 || d.OutsideUnrecorded[0].IP != "10.0.0.40" {
		t.Errorf("carried without an allocation: %v", d.OutsideUnrecorded)
	}
	if !d.HasOutside() || len(d.Unknown) > 0 {
		t.Errorf("outside: %v, unknown: %q", d.HasOutside(), d.Unknown)
	}
	if d = newRangeOf(t, "10.0.0.0/24", parts...); d.HasOutside() {
		t.Errorf("everything is inside, but is listed: %v", d)
	}
}

func TestPools_NewRange_Unknown(t *testing.T) {
	pool := All(NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")), Pool("10.0.0.0-24", "10.0.0.0/24"), Pod("bystander"))
	for _, c := range []struct {
		says, want string
		part       Part
	}{
		{"reports", "sandboxreports cannot be read (forbidden)", ReportsUnknown("forbidden")},
		{"a definition that a pod names", "default/broken cannot be read",
			All(NAD("broken", "{"), Pod("lost", CarryingOn("default/broken", "net1", "10.0.0.40"), CreatedLongAgo))},
		{"a silent node", "these nodes have no fresh SandboxReport, so their sandboxes may carry more: worker-1",
			StaleReport("worker-1")},
	} {
		d := newRangeOf(t, "10.0.0.0/28", pool, c.part)
		if !d.HasOutside() || !strings.Contains(strings.Join(d.Unknown, "\n"), c.want) {
			t.Errorf("%s: unknown is %q, want %q", c.says, d.Unknown, c.want)
		}
	}
}
