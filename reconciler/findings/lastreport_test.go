package findings_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// An agent goes silent: the findings that rest on its report are kept as it last reported them, name their age, and
// are not repaired.
func TestFindings_AsLastReported(t *testing.T) {
	runs := func(edits ...SandboxEdit) ReportEdit {
		return Sandbox("box-7", "uid-7", append([]SandboxEdit{OfPod("web-7"), with5}, edits...)...)
	}
	quiet := FreshReport("worker-1")
	other := FreshReport("worker-1", box1)
	both := Pool("blue-10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-7", "box-7", "net1"))
	for kind, parts := range map[findings.Kind][]Part{
		findings.Phantom:     {nodes, UsualPool, quiet},
		findings.Unrecorded:  {nodes, empty, runner, quiet},
		findings.Misrecorded: {nodes, UsualPool, runner, quiet},
		findings.Conflict:    {nodes, UsualPool, UsualPod(), runner, other, both},
	} {
		t.Run(string(kind), func(t *testing.T) {
			hasNoSandbox := func(f findings.Finding) bool { return len(f.ContainerIDs) == 0 }
			found := func(parts ...Part) []findings.Finding { // a Conflict of two pods without sandboxes is by reports, too
				return slices.DeleteFunc(FindingsOf(kind, parts...), hasNoSandbox)
			}
			fresh := found(append(parts, FreshReport("worker-2", runs()))...)
			if len(fresh) != 1 || fresh[0].ReportedAt != "" {
				t.Fatalf("while the report is fresh: %+v", fresh)
			}
			silent := append(parts, ReportRenewed("worker-2", 12*time.Minute, runs()))
			f := found(silent...)
			if len(f) != 1 || !f[0].Is(fresh[0]) || f[0].CanRepair() || f[0].ReportedAt != "2026-11-20T09:48:00Z" ||
				!strings.Contains(f[0].Message, "as reported 12m ago: there was no fresh report of worker-2 since") {
				t.Errorf("got %+v", f)
			}
			named := FindingsOf(findings.NoFreshReportFinding, silent...)
			if len(named) != 1 || named[0].Node != "worker-2" {
				t.Errorf("the silent node is not named: %+v", named)
			}
		})
	}
	for says, c := range map[string]struct {
		kind  findings.Kind
		parts []Part
	}{
		"the node is out of service": {findings.Phantom, []Part{Node("worker-1"), quiet, UsualPool,
			Node("worker-2", NotReadyFor(time.Hour), OutOfService), StaleReport("worker-2", runs())}},
		"the node is missing for long": {findings.Phantom, []Part{Node("worker-1"), quiet, UsualPool,
			ReportRenewed("worker-2", time.Hour, runs())}},
		"the report cannot be decoded": {findings.Phantom, []Part{nodes, quiet, UsualPool, func(o *Observed) {
			o.AddReports(podstate.UnreadReport("worker-2", "", "1"))
		}}},
		"the address was assigned to another sandbox, and the pod is gone": {findings.Conflict, []Part{nodes,
			UsualPool, carrier, other, StaleReport("worker-2", runs())}},
		"the address was assigned to another sandbox, and the pod has another one": {findings.Conflict, []Part{nodes,
			UsualPool, carrier, other, StaleReport("worker-2", runs()),
			Pod("web-7", UID("uid-7"), OnNode("worker-2"), Carrying("10.0.0.9"))}},
		"the allocation is of a pod that the silent node may have started since": {findings.Misrecorded,
			[]Part{nodes, UsualPool, UsualPod(OnNode("worker-2")), quiet, StaleReport("worker-2", runs())}},
	} {
		t.Run(says, func(t *testing.T) {
			if found := FindingsOf(c.kind, c.parts...); len(found) > 0 {
				t.Errorf("got %+v", found)
			}
		})
	}
	t.Run("the pod names the address, and it was assigned to another sandbox, too", func(t *testing.T) {
		found := FindingsOf(findings.Conflict, nodes, UsualPool, UsualPod(), other, StaleReport("worker-2", runs()), here,
			Pod("web-7", UID("uid-7"), OnNode("worker-2"), Carrying("10.0.0.5")))
		if len(found) == 0 {
			t.Error("no Conflict")
		}
	})
	t.Run("a repair of what a fresh report shows goes on", func(t *testing.T) {
		found := FindingsOf(findings.Unrecorded, nodes, empty, UsualPod(), other, StaleReport("worker-2", runs()))
		repairs := 0
		for _, f := range found {
			if f.CanRepair() && f.ReportedAt == "" {
				repairs++
			}
		}
		if len(found) != 2 || repairs != 1 {
			t.Errorf("got %+v", found)
		}
	})
}

// An agent that renews its Lease is not silent, whatever content the Lease confirms by now.
func TestNoFreshReport_BetweenTwoWrites(t *testing.T) {
	between := All(ReportingWorker(), Node("worker-2"), FreshReport("worker-2", WithoutMatchingLease))
	if found := FindingsOf(findings.NoFreshReportFinding, between); len(found) > 0 {
		t.Errorf("got %+v", found)
	}
}
