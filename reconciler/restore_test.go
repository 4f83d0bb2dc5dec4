package reconciler

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

func revision(n uint64) Part { return func(o *Observed) { o.Revision = n } }

// written is a fresh report whose content was written at a time after the start, whatever its Lease says.
func written(node string, after time.Duration, c ...ReportEdit) Part {
	return FreshReport(node, append(c, func(r *podstate.Report) { r.WrittenAt = Now.Add(after) })...)
}

// After a restore the API may lack entries and pods that still run: only later reports of all nodes show them.
func TestRestore_PausesReleases(t *testing.T) {
	leak := All(UsualPool, Node("worker-1"))
	report := func(after time.Duration) Part { return written("worker-1", after, Gone("box-1", UsualUID)) }
	other := func(after time.Duration) Part {
		return All(Node("worker-2"), written("worker-2", after, RenewedAt(Now.Add(after))))
	}
	t.Run("until every node has written its report since", func(t *testing.T) {
		p := newProcess(t, atOnce)
		p.releases("before", 0, leak, report(-time.Hour), other(0), revision(100))
		p.waits("the pass that detected it", time.Minute, leak, report(-time.Hour), other(0), revision(90))
		p.waits("a report of before", 2*time.Minute, leak, report(-time.Hour), other(0), revision(95))
		p.waits("a report of before, hours later", 5*time.Hour, leak, report(-time.Hour), other(0), revision(500))
		p.releases("a report of since", 5*time.Hour, leak, report(-time.Hour), other(4*time.Hour), revision(600))
	})
	t.Run("which the version of its Lease shows, and no clock", func(t *testing.T) {
		p := newProcess(t, atOnce)
		at := func(version string) Part {
			return written("worker-1", -time.Hour, Gone("box-1", UsualUID),
				func(r *podstate.Report) { r.LeaseVersion = version })
		}
		const seen = 10 * time.Minute
		p.pass(0, leak, at("100"), revision(100))
		p.WantRefused("the pass that detected it", plan.EtcdRestored, p.passOnce(seen, leak, at("90"), revision(90)))
		p.WantRefused("the pass by which reports are since", plan.EtcdRestored, p.passOnce(seen+time.Minute, leak, at("95"),
			revision(95)))
		p.waits("the same version, an hour later", seen+time.Hour, leak, at("95"), revision(96))
		p.waits("no number", seen+time.Hour, leak, at("9f"), revision(97))
		p.releases("a greater one", seen+time.Hour, leak, at("96"), revision(98))
	})
	t.Run("which it cannot do for another report", func(t *testing.T) {
		p := newProcess(t, atOnce)
		otherHash := written("worker-2", 0, func(r *podstate.Report) { r.ConfirmedAt = time.Time{} })
		p.seesRestore(leak, report(-time.Hour), Node("worker-2"), otherHash)
		p.waits("an hour later", time.Hour, leak, report(-time.Hour), Node("worker-2"), otherHash, revision(91))
	})
	t.Run("also if the second check that detected it fails later", func(t *testing.T) {
		p := newProcess(t, atOnce)
		p.pass(0, leak, report(-time.Hour), revision(100))
		// then the Lease was busy
		o := Observe(At(Now.Add(time.Minute)), leak, report(-time.Hour), revision(90)).Observation
		detected, _ := p.Process.Known.Detect(o)
		p.Process.Known = p.Process.Known.with(detected)
		p.waits("the next pass", 70*time.Second, leak, report(-time.Hour), revision(91))
	})
	t.Run("a revision that stands still is none", func(t *testing.T) {
		p := newProcess(t, atOnce)
		p.pass(0, leak, report(-time.Hour), revision(100))
		p.releases("the same", time.Minute, leak, report(-time.Hour), revision(100))
	})
	t.Run("a pass without a revision does not reset it", func(t *testing.T) {
		p := newProcess(t, atOnce)
		p.pass(0, leak, report(-time.Hour), revision(100))
		p.pass(time.Minute, leak, report(-time.Hour))
		p.waits("less than before", 2*time.Minute, leak, report(-time.Hour), revision(90))
	})
	t.Run("a second check that detects it, too", func(t *testing.T) {
		p := newProcess(t, atOnce)
		restored := func(o *Observed) { o.Restored = "IPPools are at resourceVersion 90 after 100" }
		p.WantRefused("said by the source", plan.EtcdRestored, p.passOnce(0, leak, report(-time.Hour), restored))
		p.WantRefused("at the pass after it", plan.EtcdRestored, p.passOnce(10*time.Second, leak, report(-time.Hour)))
		p.releases("a report of since", 5*time.Minute, leak, report(2*time.Minute))
	})
	t.Run("without agents at the pass that detected it", func(t *testing.T) {
		p := newProcess(t, atOnce)
		p.WantRefused("it", plan.EtcdRestored, p.seesRestore(leak))
		p.releases("the next one", 2*time.Minute, leak, revision(91))
	})
	t.Run("neither what is unconfirmed nor a reservation", func(t *testing.T) {
		p := newProcess(t, atOnce)
		both := All(leak, written("worker-1", -time.Hour), Reservation("10.0.0.9", "default/web-9", LongAgo))
		p.pass(0, both, revision(100))
		made := p.waits("both", time.Minute, both, revision(90))
		if len(made.Refused) != 2 {
			t.Errorf("refuses %d, want 2", len(made.Refused))
		}
	})
	t.Run("paused says so first", func(t *testing.T) {
		p := newProcess(t, atOnce)
		p.pass(0, leak, report(-time.Hour), revision(100))
		p.WantRefused("both", plan.Paused, p.pass(time.Minute, leak, report(-time.Hour), revision(90), paused))
	})
}

func TestRestore_PendingNodes(t *testing.T) {
	for _, c := range []struct {
		says  string
		waits bool
		other Part
	}{
		{"another node that has written since", false, All(Node("worker-2"), written("worker-2", 2*time.Minute))},
		{"another node that has not", true, All(Node("worker-2"), written("worker-2", 0, RenewedAt(Now)))},
		{"another node without a report", true, Node("worker-2")},
		{"another node that is not Ready", true, All(Node("worker-2", NotReadyFor(time.Hour)), StaleReport("worker-2"))},
		// The restore may have brought back its taint: see TestRestore_TaintOfTheBackup.
		{"another node that is out of service", true, All(Node("worker-2", NotReadyFor(time.Hour), OutOfService),
			StaleReport("worker-2"))},
		{"another node that is out of service and without a report", true, Node("worker-2", NotReadyFor(time.Hour),
			OutOfService)},
		{"another node that is out of service and Ready", true, All(Node("worker-2", OutOfService), written("worker-2", 0,
			RenewedAt(Now)))},
		// The restore may have lost its Node object: that does not prove that the node is dead.
		{"a report whose Node object is missing", true, written("worker-9", 0, RenewedAt(Now))},
	} {
		t.Run(c.says, func(t *testing.T) {
			p := newProcess(t, atOnce)
			leak := All(UsualPool, Node("worker-1"), written("worker-1", 2*time.Minute, Gone("box-1", UsualUID)), c.other)
			p.WantRefused("the pass that detected it", plan.EtcdRestored, p.seesRestore(leak))
			made := p.pass(3*time.Minute, leak, revision(91))
			if c.waits {
				p.WantRefused("the pass after it", plan.EtcdRestored, made)
			} else {
				p.WantReleased("the pass after it", made)
			}
		})
	}
}

// An agent that detects a restore draws a nonce, and writes it on its Lease. A process that has just started depends on
// that. It is answered once, by a wait for all nodes.
func TestRestore_ReportedByAgent(t *testing.T) {
	report := func(node string, renewed time.Duration, reportSays, leaseSays string) Part {
		return func(o *Observed) {
			r := &v1alpha1.SandboxReport{ObjectMeta: metav1.ObjectMeta{Name: node, Annotations: map[string]string{}},
				BootID: "boot-1", ObservedAt: metav1.NewTime(Now), Gone: []v1alpha1.Gone{{ID: "box-1", UID: UsualUID}}}
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node,
				Annotations: map[string]string{v1alpha1.HashAnnotation: podstate.Hash(r)}}}
			if reportSays != "" {
				r.Annotations[v1alpha1.RestoreAnnotation] = reportSays
			}
			if leaseSays != "" {
				lease.Annotations[v1alpha1.RestoreAnnotation] = leaseSays
			}
			r.ManagedFields = by(Now, `{"f:observedAt":{}}`)
			lease.ManagedFields = by(Now.Add(renewed), `{"f:spec":{"f:renewTime":{}}}`)
			o.Reports = o.Reports.With(append(o.Reports.Or(nil), podstate.ReadReport(r, lease)))
		}
	}
	const early = "2026-11-20T10:00:00Z"
	leak := All(UsualPool, Node("worker-1"), Node("worker-2"))
	both := func(renewed time.Duration, reportSays, leaseSays, otherSays string) Part {
		return All(leak, report("worker-1", renewed, reportSays, leaseSays), report("worker-2", renewed, "", otherSays))
	}
	at := func(minutes int) time.Duration { return time.Duration(minutes)*minute + 50*time.Second }
	for says, c := range map[string]struct{ report, lease, other string }{
		"a Lease says so":                        {"", "k3f7q2m9xa", ""},
		"two do":                                 {"", "k3f7q2m9xa", "a7b2c9d4ef"},
		"a report does, of an agent from before": {early, "", ""},
		"it cannot be read as anything":          {"", "just now", ""},
	} {
		t.Run(says, func(t *testing.T) {
			p := storing(t)
			p.releases("before", minute, both(at(0), "", "", ""))
			noted := both(at(1), c.report, c.lease, c.other)
			p.waits("noted", 2*minute, noted)
			p.waits("one node has not reported since", 2*minute+40*time.Second,
				leak, report("worker-1", at(1)+40*time.Second, c.report, c.lease), report("worker-2", at(1), "", c.other))
			p.releases("both have", 4*minute, both(at(3), c.report, c.lease, c.other))
			p.releases("a year later", 365*day, both(365*day-10*time.Second, c.report, c.lease, c.other))
			p.restarted().releases("to another process", 366*day, both(366*day-10*time.Second, c.report, c.lease, c.other))
			forgetful := p.restarted()
			forgetful.RestoreStore = &memoryStore{}
			forgetful.waits("but not to one that does not know that it was answered", 367*day,
				both(367*day-10*time.Second, c.report, c.lease, c.other))
			p.waits("noted again", 368*day, both(368*day-10*time.Second, "", "another", c.other))
		})
	}
}

func by(t time.Time, fields string) []metav1.ManagedFieldsEntry {
	at := metav1.NewTime(t)
	return []metav1.ManagedFieldsEntry{{Manager: "agent", Operation: "Update", Time: &at,
		FieldsV1: metav1.NewFieldsV1(fields)}}
}

// After a restore of a young backup new writes soon raise etcd's revision above that of the last pass. The objects of
// the last pass are older nevertheless.
func TestRestore_OlderObject(t *testing.T) {
	lease := func(version string) Part {
		return written("worker-1", 0, Gone("box-1", UsualUID), func(r *podstate.Report) { r.LeaseVersion = version })
	}
	report := func(version string) Part {
		return written("worker-1", 0, Gone("box-1", UsualUID), func(r *podstate.Report) {
			r.SandboxReport = r.DeepCopy()
			r.ResourceVersion = version
		})
	}
	pool := func(version string) Part {
		return func(o *Observed) { o.Pools[0].ResourceVersion = version }
	}
	watched := func(o *Observed) { o.Watched = true }
	without := written("worker-1", 0, Gone("box-1", UsualUID), func(r *podstate.Report) { r.LeaseRenewedAt = time.Time{} })
	leak := All(UsualPool, Node("worker-1"))
	for says, c := range map[string]struct {
		before, after Part
		restored      bool
	}{
		"a Lease":                      {lease("99"), lease("98"), true},
		"a report":                     {report("99"), report("98"), true},
		"a pool":                       {All(lease("1"), pool("99")), All(lease("1"), pool("98")), true},
		"none":                         {lease("99"), lease("100"), false},
		"a Lease, by a watch":          {lease("99"), All(lease("98"), watched), false},
		"a Lease that is there again":  {without, lease("98"), false},
		"a Lease that is not there":    {lease("99"), without, false},
		"a Lease than a watch has had": {All(lease("99"), watched), lease("98"), false},
	} {
		t.Run(says, func(t *testing.T) {
			p := newProcess(t, atOnce)
			p.pass(0, leak, Node("worker-2"), c.before, revision(100))
			made := p.pass(minute, leak, c.after, revision(200))
			if at, _ := p.Process.Known.Last(); at.IsZero() == c.restored {
				t.Errorf("etcd was restored at %s; refused are %+v", at, made.Refused)
			}
			if c.restored {
				p.WantRefused("at once", plan.EtcdRestored, made)
			}
		})
	}
}

func TestRestore_ConfirmationStartsAgain(t *testing.T) {
	unconfirmed := All(UsualPool, Node("worker-1"))
	p := newProcess(t, quarter)
	p.pass(0, unconfirmed, revision(100))
	p.waits("the pass that detected it", 14*time.Minute, unconfirmed, revision(90))
	p.WantRefused("15 minutes after the first pass", plan.AwaitingConfirmation, p.pass(15*time.Minute, unconfirmed,
		revision(91)))
	p.releases("15 minutes after the restore", 29*time.Minute, unconfirmed, revision(92))
}
