package explanation_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/explanation"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

func TestAddresses(t *testing.T) {
	alloc := func(key, pod, id string) Allocation { return Alloc(key, "default/"+pod, id, "net1") }
	o := Observe(
		Pool("10.0.0.0-24", "10.0.0.0/24", UsualAllocation, alloc("6", "web-1", "box-2"), alloc("7", "web-2", "box-3"),
			alloc("201", "web-4", "box-5")),
		Pool("blue-10.0.0.0-24", "10.0.0.0/24", alloc("8", "web-8", "box-8")),
		Pool("10.7.0.0-24", "10.7.0.0/24", alloc("1", "web-9", "box-9")), // which no definition names
		RawPool("10.8.0.0-24", map[string]any{"range": "?"}),
		NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", `"exclude": ["10.0.0.200/30"]`)),
		NAD("blue", WhereaboutsConfig("10.0.0.0/24", "blue")),
		Reservation("10.0.0.9", "default/alone", LongAgo),
		Pod("web-1", UID("uid-2")), Pod("web-3", UID("uid-4")),
		ReportingWorker(Gone("box-1", UsualUID), Sandbox("box-2", "uid-2", OfPod("web-1"), WithAddress("10.0.0.6", "")),
			Sandbox("box-3", "uid-3", OfPod("web-2"), WithAddress("10.0.0.7", "")),
			Sandbox("box-4", "uid-4", OfPod("web-3"), WithAddress("10.0.0.11", ""))),
	)
	j := Judged(o, judge.Policy{})
	for asked, want := range map[string]string{
		"10.0.0.1":    "[{10.0.0.1 Free 10.0.0.0-24 } {10.0.0.1 Free blue-10.0.0.0-24 }]",
		"10.0.0.5":    "[{10.0.0.5 Stale 10.0.0.0-24 default/web-0} {10.0.0.5 Free blue-10.0.0.0-24 }]",
		"10.0.0.6":    "[{10.0.0.6 InUse 10.0.0.0-24 default/web-1} {10.0.0.6 Free blue-10.0.0.0-24 }]",
		"10.0.0.7":    "[{10.0.0.7 Held 10.0.0.0-24 default/web-2} {10.0.0.7 Free blue-10.0.0.0-24 }]",
		"10.0.0.8":    "[{10.0.0.8 Free 10.0.0.0-24 } {10.0.0.8 Stale blue-10.0.0.0-24 default/web-8}]",
		"10.0.0.9":    "[{10.0.0.9 Reserved 10.0.0.0-24 } {10.0.0.9 Free blue-10.0.0.0-24 }]",
		"10.0.0.11":   "[{10.0.0.11 InUse 10.0.0.0-24 default/web-3} {10.0.0.11 Free blue-10.0.0.0-24 }]",
		"10.0.0.200":  "[{10.0.0.200 Excluded 10.0.0.0-24 } {10.0.0.200 Free blue-10.0.0.0-24 }]",
		"10.0.0.201":  "[{10.0.0.201 Stale 10.0.0.0-24 default/web-4} {10.0.0.201 Free blue-10.0.0.0-24 }]",
		"10.0.0.255":  "[{10.0.0.255 Excluded 10.0.0.0-24 } {10.0.0.255 Excluded blue-10.0.0.0-24 }]",
		"10.7.0.1":    "[{10.7.0.1 Stale 10.7.0.0-24 default/web-9}]",
		"10.7.0.2":    "[{10.7.0.2 Unknown 10.7.0.0-24 }]",
		"10.8.0.1":    "[{10.8.0.1 OutsideEveryPool  }]",
		"2001:db8::1": "[{2001:db8::1 OutsideEveryPool  }]",
	} {
		rows := explanation.Addresses(j, []netip.Addr{netip.MustParseAddr(asked)})
		if got := strings.ReplaceAll(fmt.Sprint(rows), "kube-system/", ""); got != want {
			t.Errorf("%s: %s, want %s", asked, got, want)
		}
	}
}
