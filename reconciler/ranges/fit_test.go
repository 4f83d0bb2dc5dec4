package ranges_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/ranges"
)

func ofReplicaSet(p *corev1.Pod) {
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web",
		Controller: ptr.To(true)}}
}

func TestCheck_Fits(t *testing.T) {
	var allocations []Allocation
	parts := []Part{NAD("wb", WhereaboutsConfig("10.0.0.0/24", ""))}
	for i := 1; i <= 40; i++ {
		name := fmt.Sprint("web-", i)
		allocations = append(allocations, Alloc(fmt.Sprint(i), "default/"+name, "b"+name, "net1"))
		parts = append(parts, Pod(name, Carrying(fmt.Sprint("10.0.0.", i)), ofReplicaSet),
			Reservation(fmt.Sprint("10.0.0.", i), "default/"+name, time.Hour))
	}
	parts = append(parts, Pool("10.0.0.0-24", "10.0.0.0/24", allocations...))
	for _, c := range []struct {
		says, add, update string // needs/free and whether they fit
		to                ranges.Bounds
		more              int
		surge             intstr.IntOrString
	}{
		{"the pool stays", "214/214 true", "10/214 true", ranges.Bounds{Range: "10.0.0.0/24"}, 214, intstr.FromString("25%")},
		{"one more", "215/214 false", "0/214 true", ranges.Bounds{Range: "10.0.0.0/24"}, 215, intstr.FromInt32(0)},
		{"it shrinks", "1/23 true", "7/23 true", ranges.Bounds{Range: "10.0.0.0/24", End: "10.0.0.63"}, 1,
			intstr.FromInt32(7)},
		{"it shrinks below them", "1/0 false", "10/0 false", ranges.Bounds{Range: "10.0.0.0/24", End: "10.0.0.30"}, 1,
			intstr.FromInt32(0)},
		{"it grows, and ADDs try too many", "1/470 false", "0/470 true", ranges.Bounds{Range: "10.0.0.0/23"}, 1,
			intstr.FromInt32(0)},
		{"it grows, and begins behind them", "1/470 true", "40/470 true", ranges.Bounds{Range: "10.0.0.0/23",
			Start: "10.0.0.41"}, 1, intstr.FromInt32(0)},
		{"it moves", "1/254 true", "50/254 true", ranges.Bounds{Range: "10.9.0.0/24"}, 1, intstr.FromString("25%")},
	} {
		j, found := checked(t, c.to, parts...)
		fits, err := found.Fits(j, c.more, c.surge)
		if err != nil || len(fits) != 2 {
			t.Fatal(fits, err)
		}
		for i, want := range []string{c.add, c.update} {
			if got := fmt.Sprintf("%s/%s %v", fits[i].Needs, fits[i].Free, fits[i].IsFitting); got != want {
				t.Errorf("%s: %s: got %s, want %s (%s)", c.says, fits[i].What, got, want, fits[i].Why)
			}
		}
	}
	_, found := checked(t, ranges.Bounds{Range: "10.0.0.0/23"}, parts...)
	if r := found.Ranges[0]; r.Skipped.Cmp(big.NewInt(40)) != 0 {
		t.Errorf("skipped: %s", r.Skipped)
	}
}

// An ADD tries the reserved addresses of all its ranges in one time, so the limit holds for all of them together.
func TestCheck_SkippedInTwoRanges(t *testing.T) {
	two := func(four, six string) string {
		return fmt.Sprintf(`"ipRanges":[{"range":%q},{"range":%q}]`, four, six)
	}
	for _, c := range []struct {
		pods int
		want string
	}{{11, "true true"}, {12, "false false 10.0.0.13 fd00::d"}} {
		parts := []Part{NAD("wb", `{"ipam":{"type":"whereabouts",`+two("10.0.0.0/24", "fd00::/112")+`}}`)}
		var fours, sixes []Allocation
		for i := 1; i <= c.pods; i++ {
			name, addr := fmt.Sprint("web-", i), fmt.Sprintf("fd00::%x", i)
			fours = append(fours, Alloc(fmt.Sprint(i), "default/"+name, "b"+name, "net1"))
			sixes = append(sixes, Alloc(fmt.Sprint(i), "default/"+name, "b"+name, "net1"))
			parts = append(parts, Pod(name, NetworkStatus(fmt.Sprintf(
				`[{"name":"default/wb","interface":"net1","ips":["10.0.0.%d",%q]}]`, i, addr))),
				Reservation(fmt.Sprint("10.0.0.", i), "default/"+name, time.Hour),
				Reservation(strings.ReplaceAll(addr, ":", "-"), "default/"+name, time.Hour))
		}
		parts = append(parts, Pool("10.0.0.0-24", "10.0.0.0/24", fours...), Pool("fd00---112", "fd00::/112", sixes...))
		j, found := defined(t, "wb", two("10.0.0.0/16", "fd00::/96"), parts...)
		fits, err := found.Fits(j, 1, intstr.FromInt32(0))
		if err != nil || len(fits) != 4 {
			t.Fatal(fits, err)
		}
		got := fmt.Sprint(fits[0].IsFitting, " ", fits[2].IsFitting)
		for _, s := range found.Steps(j) {
			if s.Name == "range begin" {
				got += " " + s.Names["begin"]
			}
		}
		equal(t, fmt.Sprintf("%d in each range", c.pods), got, c.want)
	}
}

// A pod has an address in each range of its definition, and gets another one in each.
func TestCheck_FitsOfTwoRanges(t *testing.T) {
	two := func(a, b string) string { return fmt.Sprintf(`"ipRanges":[{"range":%q},{"range":%q}]`, a, b) }
	var first, second []Allocation
	parts := []Part{NAD("wb", `{"ipam":{"type":"whereabouts",`+two("10.0.0.0/24", "10.1.0.0/24")+`}}`)}
	for i := 1; i <= 150; i++ {
		name := fmt.Sprint("web-", i)
		first = append(first, Alloc(fmt.Sprint(i), "default/"+name, "b"+name, "net1"))
		second = append(second, Alloc(fmt.Sprint(i), "default/"+name, "b"+name, "net1"))
		parts = append(parts, Pod(name, ofReplicaSet, NetworkStatus(fmt.Sprintf(
			`[{"name":"default/wb","interface":"net1","ips":["10.0.0.%d","10.1.0.%d"]}]`, i, i))),
			Reservation(fmt.Sprint("10.0.0.", i), "default/"+name, time.Hour),
			Reservation(fmt.Sprint("10.1.0.", i), "default/"+name, time.Hour))
	}
	parts = append(parts, Pool("10.0.0.0-24", "10.0.0.0/24", first...), Pool("10.1.0.0-24", "10.1.0.0/24", second...))
	for _, c := range []struct{ says, ipam, want string }{
		{"nothing changes", two("10.0.0.0/24", "10.1.0.0/24"), "0 outside, surge 38: true; 0 outside, surge 38: true"},
		{"one range is another", two("10.0.0.0/24", "10.2.0.0/24"), "0 outside, surge 38: true; 150 outside, surge 38: true"},
		{"one range is too small", two("10.0.0.0/24", "10.2.0.0/25"),
			"0 outside, surge 38: true; 150 outside, surge 38: false"},
		{"one range goes", `"range":"10.0.0.0/24"`, "0 outside, surge 38: true"},
		{"one more family", `"ipRanges":[{"range":"10.0.0.0/24"},{"range":"10.1.0.0/24"},{"range":"fd00::/120"}]`,
			"0 outside, surge 38: true; 0 outside, surge 38: true; 150 outside, surge 38: true"},
		{"one range is bounded", `"ipRanges":[{"range":"10.0.0.0/24","range_end":"10.0.0.100"},{"range":"10.1.0.0/24"}]`,
			"50 outside, surge 38: false; 0 outside, surge 38: true"},
	} {
		j, found := defined(t, "wb", c.ipam, parts...)
		fits, err := found.Fits(j, 0, intstr.FromString("25%"))
		check(t, err)
		var got []string
		for _, f := range fits {
			_, what, _ := strings.Cut(strings.TrimSuffix(f.What, ")"), "(")
			got = append(got, fmt.Sprint(what, ": ", f.IsFitting))
		}
		equal(t, c.says, strings.Join(got, "; "), c.want)
	}
}

// A pod with two interfaces of one network is one replica with two addresses.
func TestCheck_FitsOfTwoInterfaces(t *testing.T) {
	var all []Allocation
	parts := []Part{NAD("wb", WhereaboutsConfig("10.0.0.0/24", ""))}
	for i := 1; i <= 8; i++ {
		name := fmt.Sprint("web-", i)
		all = append(all, Alloc(fmt.Sprint(i), "default/"+name, "b"+name, "net1"),
			Alloc(fmt.Sprint(100+i), "default/"+name, "b"+name, "net2"))
		parts = append(parts, Pod(name, ofReplicaSet, NetworkStatus(fmt.Sprintf(
			`[{"name":"default/wb","interface":"net1","ips":["10.0.0.%d"]},`+
				`{"name":"default/wb","interface":"net2","ips":["10.0.0.%d"]}]`, i, 100+i))))
	}
	parts = append(parts, Pool("10.0.0.0-24", "10.0.0.0/24", all...))
	j, found := checked(t, ranges.Bounds{Range: "10.9.0.0/24"}, parts...)
	fits, err := found.Fits(j, 0, intstr.FromString("10%"))
	check(t, err)
	equal(t, "a rolling update", fits[0].What, "a rolling update of all pods (16 outside, surge 2)")
}
