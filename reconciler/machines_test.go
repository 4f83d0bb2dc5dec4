package reconciler_test

import (
	"fmt"
	"net/netip"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

func (s *simulator) claim(name string, ips ...netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claims == nil {
		s.claims = map[types.NamespacedName]*ippool.Claim{}
	}
	at := types.NamespacedName{Namespace: "default", Name: name}
	s.claims[at] = &ippool.Claim{NamespacedName: at, IPs: ips}
}

// A machine that is created, or whose guest is detected, while the address of its earlier pod is released keeps the
// address.
func TestRelease_MachineInBetween(t *testing.T) {
	claimed := map[string]any{"id": "box-old", "podref": "default/web-0", "ifname": "net1",
		"ipamclaimref": "default/vm.net1"}
	claim := func(s *simulator) { s.claim("vm.net1", addressOf(1)) }
	guest := func(s *simulator) {
		s.guests = []*podstate.Guest{{NamespacedName: types.NamespacedName{Namespace: "default", Name: "vm"},
			Interfaces: []podstate.Interface{{Network: "default/wb", Addresses: []netip.Addr{addressOf(1)}}}}}
	}
	for _, c := range []struct {
		says, at string
		entry    map[string]any
		happens  func(*simulator)
		stays    bool
	}{
		{"nothing", "hold", claimed, func(*simulator) {}, false},
		{"the claim is created, before the refresh", "refresh", claimed, claim, true},
		{"the claim is created, before the Lease is held", "hold", claimed, claim, true},
		{"the claim is created, before the live read", "fresh", claimed, claim, true},
		{"claims become unreadable, before the live read", "fresh", claimed, func(s *simulator) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.claimUnread = "vm.net1"
		}, true},
		{"the guest has the address, before the refresh", "refresh", entryOf("box-old"), guest, true},
		{"the entry gets a claim, before the live read", "fresh", entryOf("box-old"), func(s *simulator) {
			claim(s)
			s.fill(bluePool, "1", claimed)
		}, true},
		{"the entry gets a claim, before the patch", "patch", entryOf("box-old"), func(s *simulator) {
			claim(s)
			s.fill(bluePool, "1", claimed)
		}, true},
	} {
		inBubble(t, c.says, func(t *testing.T, s *simulator) {
			s.entry(bluePool, 1, "default/web-0", "box-old", false)
			s.fill(bluePool, "1", c.entry)
			happened := false
			s.step = func(call, _ string) {
				s.setReport(goneOn("worker-1", v1alpha1.Gone{ID: "box-old", UID: "uid-1"}))
				if call == c.at && !happened {
					happened = true
					c.happens(s)
				}
			}
			r := s.reconciler(t)
			r.Options.ConfirmAfter = 0
			out := pass(t, r)
			if !happened {
				t.Fatal("it did not happen")
			}
			if stays := s.entries(bluePool)["1"] != nil; stays != c.stays {
				t.Errorf("the entry stays: %v; released %d, refused %v", stays, len(out.Released), refusalCounts(out))
			}
		})
	}
}

// A claim that cannot be read at the second check holds its own address only.
func TestRelease_OneClaimUnread(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		for n, name := range []string{1: "a.net1", 2: "b.net1"} {
			if n > 0 {
				s.entry(bluePool, n, fmt.Sprint("default/web-", n), fmt.Sprint("box-", n), false)
				s.fill(bluePool, fmt.Sprint(n), map[string]any{"id": fmt.Sprint("box-", n), "podref": fmt.Sprint("default/web-", n),
					"ifname": "net1", "ipamclaimref": "default/" + name})
			}
		}
		gone := []v1alpha1.Gone{{ID: "box-1", UID: "uid-1"}, {ID: "box-2", UID: "uid-2"}}
		s.keepReporting(goneOn("worker-1", gone...))
		s.claimUnread = "a.net1"
		r := s.reconciler(t)
		r.Options.ConfirmAfter = 0
		out := pass(t, r)
		if len(out.Released) != 1 || out.Released[0].Text() != addressOf(2).String() {
			t.Errorf("released %v, refused %v", out.Released, refusalCounts(out))
		}
	})
}

// A claim that is gone must be confirmed, however its sandbox ended.
func TestPass_ClaimGoneWaits(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.entry(bluePool, 1, "default/web-0", "box-old", false)
		s.fill(bluePool, "1", map[string]any{"id": "box-old", "podref": "default/web-0", "ifname": "net1",
			"ipamclaimref": "default/vm.net1"})
		s.claim("other.net1")
		s.keepReporting(goneOn("worker-1", v1alpha1.Gone{ID: "box-old", UID: "uid-1"}))
		r := s.confirming(t)
		out := pass(t, r)
		if it := out.Allocations[0]; it.Reason != judge.ClaimGone || len(out.Released) > 0 || len(out.Refused) != 1 {
			t.Errorf("%s, %s; released %d, refused %v", it.Verdict, it.Reason, len(out.Released), refusalCounts(out))
		}
	})
}
