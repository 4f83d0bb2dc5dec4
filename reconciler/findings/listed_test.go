package findings_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// naming is a pod with a long name whose network-status has 128 addresses, from 10.0.<block>.0.
func naming(name string, block int) Part {
	var ips []string
	for i := range 128 {
		ips = append(ips, fmt.Sprintf(`"10.0.%d.%d"`, block, i))
	}
	return Pod(strings.Repeat("a", 236)+"-"+name, UID("uid-"+name), NetworkStatus(
		`[{"name":"default/evil","interface":"net1","ips":[`+strings.Join(ips, ",")+`]}]`))
}

// A tenant's pods and one definition of a few kB make a finding an address, with ten names, for any number of networks.
func TestFindings_OneForAnAddress(t *testing.T) {
	for kind, agents := range map[findings.Kind]Part{
		findings.Conflict: Nothing, findings.StatusMismatch: FreshReport("worker-1"),
	} {
		for _, cidr := range []string{"203.0.113.0/24", "10.0.0.0/16"} { // ranges without and with the addresses
			var plugins []string
			for i := range 64 {
				plugins = append(plugins, fmt.Sprintf(
					`{"type":"x","ipam":{"type":"whereabouts","range":%q,"network_name":"n%d"}}`, cidr, i))
			}
			parts := []Part{Pool("10.0.0.0-16", "10.0.0.0/16", UsualAllocation),
				NAD("evil", `{"name":"evil","plugins":[`+strings.Join(plugins, ",")+`]}`), Node("worker-1"), agents}
			for i := range 30 {
				parts = append(parts, naming(fmt.Sprint(i), 200))
			}
			of := map[findings.Kind][]findings.Finding{}
			for _, f := range Judged(Observe(parts...), facts.Policy{}).Findings {
				of[f.Kind] = append(of[f.Kind], f)
			}
			if n := len(of[findings.Unrecorded]); n > 1001 {
				t.Errorf("%d findings %s", n, findings.Unrecorded)
			}
			found := of[kind]
			if len(found) != 128 {
				t.Errorf("%d findings %s of range %s", len(found), kind, cidr)
			}
			for _, f := range found {
				if len(f.Pods) != 10 || f.NamesAll() || !strings.Contains(f.Message, " and 20 more") || len(f.Message) > 4000 ||
					len(f.Pool) > 400 {
					t.Fatalf("%d pods, %d bytes: %s, pool %s", len(f.Pods), len(f.Message), f.Message, f.Pool)
				}
			}
		}
	}
}

// Of a kind 1,000 findings are listed. The others are counted, and an explanation of their address says so.
func TestFindings_AtMost1000OfAKind(t *testing.T) {
	parts := []Part{Pool("10.0.0.0-16", "10.0.0.0/16", UsualAllocation),
		NAD("evil", WhereaboutsConfig("203.0.113.0/24", "")), Node("worker-1")}
	for i := range 20 {
		parts = append(parts, naming(fmt.Sprint("a-", i), i+1), naming(fmt.Sprint("b-", i), i+1))
	}
	j := Judged(Observe(parts...), facts.Policy{})
	listed, all := 0, 0
	isListed := map[string]bool{}
	for _, f := range j.Findings {
		if f.Kind == findings.Conflict {
			all += f.Count()
			if !f.IsRest() {
				listed++
				isListed[f.IP] = true
			} else if !strings.Contains(f.Message, "1560 more") {
				t.Error(f.Message)
			}
		}
	}
	if listed != 1000 || all != 20*128 {
		t.Errorf("%d are listed of %d", listed, all)
	}
	if n := j.Summary().Findings; n < all {
		t.Errorf("the summary has %d findings", n)
	}
	for block := range 20 {
		for i := range 128 {
			addr := netip.AddrFrom4([4]byte{10, 0, byte(block + 1), byte(i)})
			if about := j.About(addr).Findings; len(about) != 1 || about[0].IsRest() == isListed[addr.String()] {
				t.Fatalf("%s: listed %v: %+v", addr, isListed[addr.String()], about)
			}
		}
	}
	if free := j.About(netip.MustParseAddr("10.0.99.1")).Findings; len(free) != 0 {
		t.Errorf("%+v", free)
	}
}

// What a repair writes is listed, whatever users' pods name, and every address without an entry counts as used.
func TestFindings_RepairsAreNotLimited(t *testing.T) {
	parts := []Part{Pool("10.0.0.0-16", "10.0.0.0/16"), NAD("evil", WhereaboutsConfig("10.0.0.0/16", "")),
		Node("worker-1"), Node("worker-2")}
	var boxes []ReportEdit
	for i := range 20 {
		boxes = append(boxes, Sandbox(fmt.Sprint("box-", i), fmt.Sprint("uid-box-", i), func(b *v1alpha1.Sandbox) {
			b.Name = fmt.Sprint("box-", i)
			for n := range 64 {
				a := Address(fmt.Sprintf("10.0.%d.%d", 100+i, n), "")
				a.Range, a.IfName = "10.0.0.0/16", fmt.Sprint("net", n)
				b.Addresses = append(b.Addresses, a)
			}
		}))
	}
	parts = append(parts, FreshReport("worker-1", boxes...))
	for i := range 20 {
		name := fmt.Sprint(i)
		parts = append(parts, func(o *Observed) {
			naming(name, i+1)(o)
			for _, p := range o.Pods {
				p.Node = "worker-2"
			}
		})
	}
	j := Judged(Observe(parts...), facts.Policy{})
	repairs, others := 0, 0
	for _, f := range j.Findings {
		switch {
		case f.Kind != findings.Unrecorded:
		case f.CanRepair():
			repairs++
		case !f.IsRest():
			others++
		}
	}
	if repairs != 20*64 || others != 1000 {
		t.Errorf("%d repairs, %d others", repairs, others)
	}
	if n := len(j.Unrecorded()["kube-system/10.0.0.0-16"]); n != 20*64+20*128 {
		t.Errorf("%d addresses have no entry", n)
	}
}
