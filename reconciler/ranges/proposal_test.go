package ranges_test

import (
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/ranges"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

func TestProposal_Refused(t *testing.T) {
	parts := []Part{NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")), Pool("10.0.0.0-24", "10.0.0.0/24"), Pod("bystander")}
	j := Judged(Observe(parts...), facts.Policy{})
	for _, c := range []struct {
		want string
		b    ranges.Bounds
	}{
		{"is not an address with a prefix length", ranges.Bounds{Range: "10.0.0.0"}},
		{`exclude "x"`, ranges.Bounds{Range: "10.0.0.0/24", Exclude: []string{"x"}}},
		{`"10.0.1.1" is not an address of 10.0.0.0/24`, ranges.Bounds{Range: "10.0.0.0/24", Start: "10.0.1.1"}},
		{`"x" is not an address of 10.0.0.0/24`, ranges.Bounds{Range: "10.0.0.0/24", End: "x"}},
		{"is wider than /64", ranges.Bounds{Range: "fd00::/48"}},
	} {
		_, err := ranges.OfRange(j.Facts(), usage.Of(j).All[0], c.b)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.b, err, c.want)
		}
	}
}
