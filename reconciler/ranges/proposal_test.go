package ranges_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

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
		u := usage.Of(j)
		_, err := ranges.OfRange(j.Facts(), u, u.All[0], c.b)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.b, err, c.want)
		}
	}
}

// A definition keeps its other ranges if one gets other bounds: the answer is that of the whole definition in a file.
func TestProposal_OtherRanges(t *testing.T) {
	two := `{"ipam":{"type":"whereabouts","ipRanges":[{"range":"10.0.0.0/24"},{"range":"10.1.0.0/24"}]}}`
	today := All(Pool("10.0.0.0-24", "10.0.0.0/24"), Pool("10.1.0.0-24", "10.1.0.0/24"), NAD("wb", two), Pod("bystander"))
	const own = "10.1.0.0/24 with kube-system/10.1.0.0-23: both are ranges of the new definition"
	for _, c := range []struct {
		says, to, file, want string
		parts                []Part
	}{
		{"the new one is in the other one", "10.1.0.0/23", `"ipRanges":[{"range":"10.1.0.0/23"},{"range":"10.1.0.0/24"}]`,
			own, nil},
		{"the new one is apart", "10.2.0.0/24", `"ipRanges":[{"range":"10.2.0.0/24"},{"range":"10.1.0.0/24"}]`, "", nil},
		{"another definition has more ranges", "10.2.0.0/24",
			`"ipRanges":[{"range":"10.2.0.0/24"},{"range":"10.1.0.0/24"}]`, "", []Part{Pool("10.3.0.0-24", "10.3.0.0/24"),
				NAD("wc", `{"ipam":{"type":"whereabouts","ipRanges":[{"range":"10.3.0.0/24"},{"range":"10.0.0.0/24"}]}}`)}},
	} {
		j, found := checked(t, ranges.Bounds{Range: c.to}, append(c.parts, today)...)
		_, file := defined(t, "wb", c.file, append(c.parts, today)...)
		if !strings.HasPrefix(told(found), c.want) || (c.want == "") != (told(found) == "") || told(found) != told(file) {
			t.Errorf("%s: got\n%s\nwant\n%s\nby a file\n%s", c.says, told(found), c.want, told(file))
		}
		if left := strings.Join(found.Left(), " "); left != "kube-system/10.0.0.0-24" {
			t.Errorf("%s: left is %s", c.says, left)
		}
		equal(t, c.says+": ranges", len(found.Ranges), 2+len(c.parts)/2)
		fits, err := found.Fits(j, 0, intstr.FromInt32(0))
		check(t, err)
		equal(t, c.says+": fits", len(fits), len(found.Ranges))
	}
}
