package findings_test

import (
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

func TestUnsupportedRange_Finding(t *testing.T) {
	wide := func(allocs ...Allocation) Part { return Pool("fd00---32", "fd00::/32", allocs...) }
	webAt5 := Alloc("5", "default/web-0", "box-1", "net1")
	expectFindings(t, findings.UnsupportedRangeFinding, []findingCase{
		{"a range wider than /64", 1, []Part{wide(webAt5)}},
		{"with two allocations", 1, []Part{wide(webAt5, Alloc("6", "default/db-0", "box-2", "net1"))}},
		{"without any", 1, []Part{wide()}},
		{"a range with host bits", 1, []Part{Pool("10.0.0.3-24", "10.0.0.3/24", webAt5)}},
		{"two pools", 2, []Part{wide(), Pool("10.0.0.3-24", "10.0.0.3/24")}},
		{"supported ranges", 0, []Part{Pool("fd00-0-0-1---64", "fd00:0:0:1::/64", webAt5), UsualPool}},
		{"a range that cannot be parsed", 0, []Part{Pool("10.0.0.3-24", "10.0.0.3")}},
	})
	found := FindingsOf(findings.UnsupportedRangeFinding, wide(webAt5))
	if f := found[0]; f.Pool != "kube-system/fd00---32" || f.Repair != nil || !strings.Contains(f.Message, "fd00::/64") {
		t.Errorf("got %+v", f)
	}
	if found := FindingsOf(findings.MalformedFinding, wide(webAt5)); len(found) > 0 {
		t.Errorf("it is malformed, too: %+v", found)
	}
}
