package agent_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// Helm never upgrades a CustomResourceDefinition. What an older one does not know is
// dropped without an error, and the report's hash then matches no Lease.
func TestAnOlderCRDIsNoticedAndNoLeaseConfirmsTheReport(t *testing.T) {
	s := newAPIServer(t)
	s.drops = []string{"machine", "sandboxes.addressesUnread"}
	a := s.api()
	s.fine(a.Publish(t.Context(), aReport("a"))) // that has nothing new
	before := s.objects[leasePath]
	full := aReport("a", "b")
	full.Machine = v1alpha1.Machine{SystemUUID: "uuid-1", MachineID: "machine-1"}
	full.Sandboxes[1].AddressesUnread = true
	for range 3 {
		var dropped *agent.DroppedError
		if err := a.Publish(t.Context(), full); !errors.As(err, &dropped) {
			t.Fatalf("got %v", err)
		}
		if want := []string{"machine", "machine.machineID", "machine.systemUUID", "sandboxes.addressesUnread"}; !reflect.DeepEqual(dropped.Fields, want) {
			t.Errorf("dropped: %v", dropped.Fields)
		}
		for _, want := range []string{"sandboxreports.ip-reconcile.dev", "deploy/crds", "sandboxes.addressesUnread"} {
			if !strings.Contains(dropped.Error(), want) {
				t.Errorf("%q lacks %q", dropped, want)
			}
		}
		equal(t, "the Lease", s.objects[leasePath], before)
	}
	s.drops = nil
	s.fine(a.Publish(t.Context(), full))
	s.confirmed(full)
}

func TestAReportIsReadBackOnceForWhatItHas(t *testing.T) {
	s := newAPIServer(t)
	a := s.api()
	reads := func(r *v1alpha1.SandboxReport) int {
		s.asked = nil
		s.fine(a.Publish(t.Context(), r))
		s.confirmed(r)
		return len(slices.DeleteFunc(s.asked, func(what string) bool { return what != "GET sandboxreports" }))
	}
	equal(t, "the first", reads(aReport("a")), 1)
	equal(t, "the same again", reads(aReport("a")), 0)
	equal(t, "one with more of the same", reads(aReport("a", "b", "c")), 0)
	one := aReport("a")
	one.Sandboxes[0].AddressesUnread = true
	equal(t, "one with a field more", reads(one), 1)
	equal(t, "and again", reads(one), 0)
	equal(t, "without it", reads(aReport("a")), 0)
}

func TestNoLeaseConfirmsAReportThatCannotBeReadBack(t *testing.T) {
	s := newAPIServer(t)
	a := s.api()
	s.fail["GET sandboxreports"] = 500
	if err := a.Publish(t.Context(), aReport("a")); err == nil {
		t.Error("no error")
	}
	equal(t, "the Lease", s.objects[leasePath], "")
	delete(s.fail, "GET sandboxreports")
	s.fine(a.Publish(t.Context(), aReport("a")))
	s.confirmed(aReport("a"))
}
