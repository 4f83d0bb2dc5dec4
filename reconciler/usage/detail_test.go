package usage_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// asking is a Pending pod for so long that asks for networks.
func asking(name, networks string, since time.Duration, edits ...PodEdit) Part {
	return Pod(name, append([]PodEdit{Phase("Pending"), func(p *corev1.Pod) {
		p.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": networks}
		p.CreationTimestamp = metav1.NewTime(Now.Add(-since))
	}}, edits...)...)
}

func TestWhichPodsWait(t *testing.T) {
	full := All(net("a"), pool29(1, 2, 3, 4, 5, 6))
	slices3 := All(Node("w-1"), Node("w-2"), NAD("s", WhereaboutsConfig("10.0.0.0/28", "", `"node_slice_size":"/30"`)),
		Pool("w-1-10.0.0.4-30", "10.0.0.4/30", Alloc("1", "default/x", "b1", "net1"), Alloc("2", "default/y", "b2", "net1")),
		Pool("w-2-10.0.0.8-30", "10.0.0.8/30"))
	twoRanges := All(NAD("d", `{"ipam":{"type":"whereabouts","ipRanges":[{"range":"10.0.0.0/30"},{`+
		`"range":"fd00::/64"}]}}`),
		Pool("10.0.0.0-30", "10.0.0.0/30", Alloc("1", "default/x", "b1", "net1"), Alloc("2", "default/y", "b2", "net1")),
		Pool("fd00---64", "fd00::/64"))
	for _, c := range []struct {
		says  string
		waits bool
		parts []Part
	}{
		{"its pool is full", true, []Part{full, asking("p", "default/a", time.Minute)}},
		{"its pool is full, by the name alone", true, []Part{full, asking("p", "a", time.Minute)}},
		{"its pool is full, and is its default network's", true,
			[]Part{full, asking("p", "", time.Minute, func(p *corev1.Pod) {
				p.Annotations["v1.multus-cni.io/default-network"] = "default/a"
			})}},
		{"a snapshot has it twice, and differently", false, []Part{full, asking("p", "a", time.Minute), func(o *Observed) {
			o.Pods[types.NamespacedName{Namespace: "default", Name: "p"}].Contradiction = "it is there twice"
		}}},
		{"its pool has something left", false, []Part{net("a"), pool29(1, 2, 3, 4, 5), asking("p", "a", time.Minute)}},
		{"it is not known what its pool has", false, []Part{pool29(1, 2, 3, 4, 5, 6), asking("p", "a", time.Minute)}},
		{"it is young", false, []Part{full, asking("p", "a", usage.WaitsAfter-time.Second)}},
		{"it has no node", false, []Part{full, asking("p", "a", time.Minute, OnNode(""))}},
		{"it runs", false, []Part{full, asking("p", "a", time.Minute, Phase("Running"))}},
		{"it asks for another network", false, []Part{full, asking("p", "b", time.Minute)}},
		{"it asks for one of its namespace", false, []Part{full, asking("p", "other/a", time.Minute)}},
		{"it has its entry", false, []Part{full, asking("web-3", "a", time.Minute)}},
		{"both its definitions are of the full pool", true, []Part{full, net("b"), asking("p", "a,b", time.Minute)}},
		{"it has one of its two entries", true, []Part{full, asking("web-3", "a,a", time.Minute)}},
		{"its part of the pool is full", true, []Part{net("a", `"range_end":"10.0.0.2"`), net("b"), pool29(1, 2),
			asking("p", "a", time.Minute)}},
		{"another's part of the pool is full", false, []Part{net("a", `"range_end":"10.0.0.2"`), net("b"), pool29(1, 2),
			asking("p", "b", time.Minute)}},
		{"its node's slice is full", true, []Part{slices3, asking("p", "s", time.Minute, OnNode("w-1"))}},
		{"another node's slice is full", false, []Part{slices3, asking("p", "s", time.Minute, OnNode("w-2"))}},
		{"one of its two ranges is full", true, []Part{twoRanges, asking("p", "d", time.Minute)}},
	} {
		t.Run(c.says, func(t *testing.T) {
			u := usage.Of(judged(append([]Part{Pod("bystander")}, c.parts...)...))
			waits := 0
			for _, p := range u.All {
				for _, w := range p.Waiting {
					if w.Name != "p" && w.Name != "web-3" || w.Namespace != "default" {
						t.Errorf("%s waits for %s", w, p.Ref())
					}
					waits++
				}
			}
			if waits != map[bool]int{true: 1}[c.waits] {
				t.Errorf("it waits for %d pools", waits)
			}
		})
	}
}

func TestWhoHasAPoolAndWhatIsFree(t *testing.T) {
	controller := func(kind, name string) PodEdit {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "Other", Name: "x"}, {Kind: kind, Name: name,
				Controller: ptr.To(true)}}
		}
	}
	u := usage.Of(judged(net("a"), Pool("10.0.0.0-29", "10.0.0.0/29", Alloc("1", "default/web-1", "b1", "net1"),
		Alloc("2", "default/web-2", "b2", "net1"), Alloc("4", "blue/gone", "b3", "net1"),
		Alloc("5", "default/web-1_a-b", "b4", "net1")), Pod("web-1", Carrying("10.0.0.1"), controller("ReplicaSet", "web")),
		Pod("web-2", Carrying("10.0.0.2"), controller("ReplicaSet", "web"))))
	p := theOnly(t, u)
	for _, c := range []struct{ what, got, want string }{
		{"namespaces", fmt.Sprint(p.ByNamespace()), "[{default 3} {blue 1}]"},
		{"workloads", fmt.Sprint(u.ByWorkload(p)), "[{default/ReplicaSet/web 2} {blue/Pod/gone 1} {default/Pod/web-1 1}]"},
		{"free addresses", fmt.Sprint(p.FreeAddresses.Ranges()), "[10.0.0.3-10.0.0.3 10.0.0.6-10.0.0.6]"},
		{"definitions", fmt.Sprint(len(p.Definitions), p.Definitions[0], p.Definitions[0].Usable.Ranges()),
			"1 default/a [10.0.0.1-10.0.0.6]"},
		{"stale", fmt.Sprint(len(p.StaleEntries), " ", p.StaleEntries[0].Address()), "2 10.0.0.4"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.what, c.got, c.want)
		}
	}
}

func TestAPoolIsFoundByNameRangeAndAddress(t *testing.T) {
	u := usage.Of(judged(pool29(1), Pool("red-10.0.0.0-29", "10.0.0.0/29"), Pool("fd00---64", "fd00::/64")))
	for text, want := range map[string]int{
		"kube-system/10.0.0.0-29": 1, "10.0.0.0-29": 1, "10.0.0.0/29": 2, "10.0.0.3/29": 2, "10.0.0.5": 2,
		"fd00::/64": 1, "fd00:0::5": 1, "other/10.0.0.0-29": 0, "10.0.0.0/28": 0, "10.0.0.9": 0, "": 0,
	} {
		if got := len(u.Find(text)); got != want {
			t.Errorf("%q finds %d pools, want %d", text, got, want)
		}
	}
}

func TestFreeAddressesThatNoADDReachesInTimeAreNoted(t *testing.T) {
	reservedAt := func(before string, from, to int) Part {
		var all []Part
		for i := from; i <= to; i++ {
			all = append(all, Reservation(fmt.Sprint(before, i), "default/x", LongAgo))
		}
		return All(all...)
	}
	reserved := func(from, to int) Part { return reservedAt("10.0.0.", from, to) }
	dual := All(NAD("a", `{"ipam":{"type":"whereabouts","ipRanges":[{"range":"10.0.0.0/24"},{"range":"fd00::/112"}]}}`),
		Pool("10.0.0.0-24", "10.0.0.0/24"), Pool("fd00---112", "fd00::/112"))
	slice := All(NAD("a", WhereaboutsConfig("10.0.0.0/16", "", `"node_slice_size":"/24"`)), Node("w-1"),
		Pool("w-1-10.0.0.0-24", "10.0.0.0/24"))
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
		{"23 come in two ranges of one ADD", true, []Part{dual, reserved(1, 18), reservedAt("fd00--", 1, 5)}},
		{"22 do", false, []Part{dual, reserved(1, 18), reservedAt("fd00--", 1, 4)}},
		{"16 come in the slice of a node", true, []Part{slice, reserved(1, 16)}},
		{"15 do", false, []Part{slice, reserved(1, 15)}},
	} {
		u := usage.Of(judged(append(c.parts, Pod("bystander"))...))
		if noted := strings.Contains(strings.Join(u.Notes, " "), "10.0.0.0-24 fail although"); noted != c.noted {
			t.Errorf("%s: notes %q", c.says, u.Notes)
		}
	}
}

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
				o.Reservations.Or(nil)[0].Namespace = "elsewhere"
			}}},
		{"it cannot be parsed", "", "", []Part{other, Pool("10.0.0.0-24", "10.0.0.0")}},
		{"no definition was read", "", "no NetworkAttachmentDefinition was read", []Part{Pool("10.0.0.0-24", "10.0.0.0/24")}},
		{"one cannot be parsed", "", "NetworkAttachmentDefinition default/bad cannot be parsed",
			[]Part{empty, NAD("bad", "{")}},
		{"one is configured on the nodes", "", "NetworkAttachmentDefinition default/bad cannot be parsed",
			[]Part{empty, NAD("bad", "")}},
		{"an object cannot be read", "", "a.yaml is broken",
			[]Part{empty, func(o *Observed) { o.Unreadable = []string{"a.yaml is broken"} }}},
		{"reservations cannot be read", "", "overlappingrangeipreservations could not be read",
			[]Part{empty, func(o *Observed) {
				o.Reservations = facts.Unknown[[]*ippool.Reservation](errors.New("forbidden"))
			}}},
		{"definitions cannot be read", "", "network-attachment-definitions could not be read",
			[]Part{empty, func(o *Observed) {
				o.NADs = facts.Unknown[map[types.NamespacedName]*ippool.NAD](errors.New("forbidden"))
			}}},
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
	j.Findings = []findings.Finding{{Kind: findings.Unrecorded, Pool: "x/y,kube-system/10.0.0.0-24"}}
	u := usage.Of(j)
	if u.KeepUnused(j); len(u.All) > 0 {
		t.Error("a pool with a finding is unused")
	}
}
