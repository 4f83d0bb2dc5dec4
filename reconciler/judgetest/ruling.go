package judgetest

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Ruling is what was judged of an allocation.
type Ruling struct {
	Verdict judge.Verdict
	Reason  judge.Reason
	Proven  bool
	Sandbox judge.Sandbox
}

// Want is a Ruling.
func Want(verdict judge.Verdict, reason judge.Reason, proven bool, sandbox judge.Sandbox) Ruling {
	return Ruling{verdict, reason, proven, sandbox}
}

func (x Ruling) String() string {
	text := fmt.Sprintf("%s, %s (sandbox %s)", x.Verdict, x.Reason, x.Sandbox)
	if x.Proven {
		text += ", proven"
	}
	return text
}

// RulingOf is the Ruling on an item; its Sandbox is -1 without evidence.
func RulingOf(it *judge.Item) Ruling {
	x := Ruling{Verdict: it.Verdict, Reason: it.Reason, Proven: it.Proven, Sandbox: -1}
	if it.Evidence() != nil {
		x.Sandbox = it.Evidence().Sandbox
	}
	return x
}

// Wrong says that an item was judged otherwise than wanted: by which row of the table, and which address would be
// released for that reason.
func Wrong(it *judge.Item, want any) string {
	does := "stays"
	if it.Verdict == judge.Stale {
		does = "would be RELEASED"
	}
	return fmt.Sprintf("%s of %s %s, by row %s: %s\ngot  %v\nwant %v", it.Address(), it.PodRef(), does, it.RuleID(),
		it.Message(), RulingOf(it), want)
}

// AllocationOf is the judged allocation with this address; it must be the only one.
func AllocationOf(t *testing.T, j *findings.Assessment, ip string) *judge.Item {
	t.Helper()
	var found *judge.Item
	for _, it := range j.Allocations {
		if it.Address().String() == ip {
			if found != nil {
				t.Fatalf("two allocations of %s: %s and %s", ip, found.Object(), it.Object())
			}
			found = it
		}
	}
	if found == nil {
		t.Fatalf("no allocation of %s", ip)
	}
	return found
}

// ReservationOf is the judged reservation of this name.
func ReservationOf(t *testing.T, j *findings.Assessment, name string) *judge.Item {
	t.Helper()
	for _, it := range j.Reservations {
		if it.Reservation.Name == name {
			return it
		}
	}
	t.Fatalf("no reservation %s", name)
	return nil
}

// FindingsOf are the findings of one kind.
func FindingsOf(kind findings.Kind, parts ...Part) []findings.Finding {
	var found []findings.Finding
	for _, f := range Judged(Observe(parts...), facts.Policy{}).Findings {
		if f.Kind == kind {
			found = append(found, f)
		}
	}
	return found
}

// Expect judges the allocation of 10.0.0.5.
func Expect(t *testing.T, want Ruling, parts ...Part) {
	t.Helper()
	ExpectUnder(t, facts.Policy{}, want, parts...)
}

// ExpectUnder is Expect under a policy other than the default.
func ExpectUnder(t *testing.T, policy facts.Policy, want Ruling, parts ...Part) {
	t.Helper()
	it := AllocationOf(t, Judged(Observe(parts...), policy), "10.0.0.5")
	if got := RulingOf(it); got != want {
		t.Error(Wrong(it, want))
	}
	if it.Message() == "" {
		t.Error("the verdict has no sentence: what is not released must say why")
	}
}

// PodName is default/<name>.
func PodName(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}
