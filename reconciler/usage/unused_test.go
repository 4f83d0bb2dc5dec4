package usage_test

import (
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

func TestUnused_OnlyWhatNothingUses(t *testing.T) {
	other := NAD("other", WhereaboutsConfig("10.9.0.0/24", ""))
	empty := All(other, Pool("10.0.0.0-24", "10.0.0.0/24"))
	slice := All(Node("w-1"), NAD("s", WhereaboutsConfig("10.0.0.0/28", "", `"node_slice_size":"/30"`)))
	for _, c := range []struct {
		says, unused, unknown string
		parts                 []Part
	}{
		{"no definition names it", "kube-system/10.0.0.0-24", "", []Part{empty}},
		{"two, by name", "kube-system/10.0.0.0-24 kube-system/10.1.0.0-24", "",
			[]Part{Pool("10.1.0.0-24", "10.1.0.0/24"), empty}},
		{"a definition names it", "", "", []Part{empty, NAD("a", WhereaboutsConfig("10.0.0.0/24", ""))}},
		{"one that whereabouts refuses does", "", "",
			[]Part{empty, NAD("a", WhereaboutsConfig("10.0.0.0/24", "", `"exclude":["x"]`))}},
		{"one of another network does not", "kube-system/10.0.0.0-24", "",
			[]Part{empty, NAD("a", WhereaboutsConfig("10.0.0.0/24", "red"))}},
		{"one of its network does", "", "",
			[]Part{other, Pool("red-10.0.0.0-24", "10.0.0.0/24"), NAD("a", WhereaboutsConfig("10.0.0.0/24", "red"))}},
		{"it is another network's", "kube-system/red-10.0.0.0-24", "",
			[]Part{other, Pool("red-10.0.0.0-24", "10.0.0.0/24"), NAD("a", WhereaboutsConfig("10.0.0.0/24", ""))}},
		{"a name that whereabouts does not give", "", "",
			[]Part{Pool("mine", "10.0.0.0/24"), NAD("a", WhereaboutsConfig("10.0.0.0/24", "red"))}},
		{"the slice of a node", "", "", []Part{slice, Pool("w-1-10.0.0.4-30", "10.0.0.4/30")}},
		{"the slice of a node that is gone", "", "", []Part{slice, Pool("w-2-10.0.0.4-30", "10.0.0.4/30")}},
		{"it has an allocation", "", "",
			[]Part{other, Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("1", "default/x", "box", "net1"))}},
		{"a reservation is in its range", "", "", []Part{empty, Reservation("10.0.0.7", "default/x", LongAgo)}},
		{"one of a named network is", "", "", []Part{empty, Reservation("red-blue-10.0.0.7", "default/x", LongAgo)}},
		{"one of IPv6 is", "", "",
			[]Part{other, Pool("fd00---64", "fd00::/64"), Reservation("red-fd00--7", "default/x", LongAgo)}},
		{"one is in another range", "kube-system/10.0.0.0-24", "",
			[]Part{empty, Reservation("10.0.1.7", "default/x", LongAgo)}},
		{"one is in another namespace", "kube-system/10.0.0.0-24", "",
			[]Part{empty, Reservation("10.0.0.7", "default/x", LongAgo), func(o *Observed) {
				o.Reservations[0].Namespace = "elsewhere"
			}}},
		{"it cannot be parsed", "", "", []Part{other, Pool("10.0.0.0-24", "10.0.0.0")}},
		{"no definition was read", "", "no NetworkAttachmentDefinition was read", []Part{Pool("10.0.0.0-24", "10.0.0.0/24")}},
		{"one cannot be parsed", "", "NetworkAttachmentDefinition default/bad cannot be parsed",
			[]Part{empty, NAD("bad", "{")}},
		{"one is configured on the nodes", "", "NetworkAttachmentDefinition default/bad cannot be parsed",
			[]Part{empty, NAD("bad", "")}},
		{"an object cannot be read", "", "a.yaml is broken",
			[]Part{empty, func(o *Observed) { o.Unreadable = []string{"a.yaml is broken"} }}},
	} {
		t.Run(c.says, func(t *testing.T) {
			j := judged(append(c.parts, Pod("bystander"))...)
			j.Findings = nil
			u := usage.Of(j)
			u.KeepUnused(j)
			var names []string
			for _, p := range u.All {
				names = append(names, p.Ref())
			}
			unknown := ""
			for _, note := range u.Notes {
				if _, why, ok := strings.Cut(note, "it is unknown which pools are unused: "); ok {
					unknown = why
				}
			}
			if got := strings.Join(names, " "); got != c.unused || unknown != c.unknown {
				t.Errorf("unused %q, unknown %q; want %q, %q", got, unknown, c.unused, c.unknown)
			}
		})
	}
	j := judged(empty, Pod("bystander"))
	j.Findings = []judge.Finding{{Kind: judge.Unrecorded, Pool: "x/y,kube-system/10.0.0.0-24"}}
	u := usage.Of(j)
	if u.KeepUnused(j); len(u.All) > 0 {
		t.Error("a pool with a finding is unused")
	}
}
