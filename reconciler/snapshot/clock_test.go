package snapshot_test

import (
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

func reportAt(node, observedAt string) string {
	return "apiVersion: ip-reconcile.dev/v1alpha1\nkind: SandboxReport\nmetadata: {name: " + node + "}\nobservedAt: \"" + observedAt + "\"\n---\n"
}

func leaseAt(namespace, node, renewTime string) string {
	return "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {namespace: " + namespace + ", name: " + node + "}\nspec: {renewTime: \"" + renewTime + "\"}\n---\n"
}

func nodeObject(node string) string {
	return "apiVersion: v1\nkind: Node\nmetadata: {name: " + node + "}\n---\n"
}

// lookAt opens a folder at a time of its own (zero for its default).
func lookAt(t *testing.T, now time.Time, text string) *judge.Observation {
	t.Helper()
	f, err := snapshot.Open(folder(t, map[string]string{"pool.yaml": onePool, "other.yaml": text}), now, home)
	if err != nil {
		t.Fatal(err)
	}
	return observe(t, f)
}

func TestNowIsTheNewestLeaseOrReportOfTheFolder(t *testing.T) {
	for _, c := range []struct {
		name, text, want string
	}{
		{"the newest Lease", reportAt("w1", "2026-11-20T10:00:00Z") + leaseAt("ip-reconcile", "w1", "2026-11-20T11:00:00.000000Z") +
			nodeObject("w2") + leaseAt("ip-reconcile", "w2", "2026-11-20T11:30:00.000000Z"), "11:30"},
		{"the newest report", reportAt("w1", "2026-11-20T10:00:00Z") + reportAt("w2", "2026-11-20T10:30:00Z"), "10:30"},
		{"a report newer than every Lease", reportAt("w1", "2026-11-20T11:45:00Z") + leaseAt("ip-reconcile", "w1", "2026-11-20T11:00:00.000000Z"), "11:45"},
		{"kubelet's Leases do not count", reportAt("w1", "2026-11-20T10:00:00Z") + leaseAt("kube-node-lease", "w1", "2026-11-20T11:00:00.000000Z"), "10:00"},
		{"Leases that are not named like a node do not count", reportAt("w1", "2026-11-20T10:00:00Z") + leaseAt("kube-system", "whereabouts", "2026-11-20T11:00:00.000000Z"), "10:00"},
	} {
		if got := lookAt(t, time.Time{}, c.text).Now.Format("15:04"); got != c.want {
			t.Errorf("%s: now is %s; want %s", c.name, got, c.want)
		}
	}
}

func TestNowIsTheWallClockWhereNothingInTheFolderHasATime(t *testing.T) {
	before := time.Now()
	got := lookAt(t, time.Time{}, leaseAt("kube-node-lease", "w1", "2026-11-20T11:00:00.000000Z")).Now
	if got.Before(before) || got.After(time.Now()) {
		t.Errorf("now is %v", got)
	}
}

// freshReports are the names of the reports that may be relied upon.
func freshReports(o *judge.Observation) string {
	var names string
	for _, r := range o.Reports {
		if r.Fresh(o.Now) {
			names += r.Name + " "
		}
	}
	return names
}

func TestAReportIsFreshByItsLeaseWhereAnyNodeHasOne(t *testing.T) {
	const now, recent, old = "2026-11-20T12:00:00Z", "2026-11-20T11:59:30.000000Z", "2026-11-20T11:00:00.000000Z"
	for _, c := range []struct{ name, text, want string }{
		{"renewed within the minute", reportAt("w1", "2026-11-20T01:00:00Z") + leaseAt("ip-reconcile", "w1", recent), "w1 "},
		{"renewed an hour ago", reportAt("w1", now) + leaseAt("ip-reconcile", "w1", old), ""},
		{"no Lease while another has one", reportAt("w1", now) + reportAt("w2", now) + leaseAt("ip-reconcile", "w2", recent), "w2 "},
		{"no Lease while a node without a report has one", reportAt("w1", now) + nodeObject("w2") + leaseAt("ip-reconcile", "w2", recent), ""},
		{"no Leases at all: observed within the minute", reportAt("w1", "2026-11-20T11:59:30Z") + reportAt("w2", "2026-11-20T11:00:00Z"), "w1 "},
		{"kubelet's Leases are none", reportAt("w1", now) + leaseAt("kube-node-lease", "w1", old), "w1 "},
		{"Leases of other things are none", reportAt("w1", now) + leaseAt("kube-system", "whereabouts", old) + leaseAt("x", "w1-db", old), "w1 "},
		{"a Lease without a renewTime is none", reportAt("w1", now) + "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {namespace: x, name: w1}\nspec: {holderIdentity: y}\n", "w1 "},
		{"two Leases of one name: the newer", reportAt("w1", now) + leaseAt("old", "w1", old) + leaseAt("ip-reconcile", "w1", recent) + leaseAt("z", "w1", old), "w1 "},
	} {
		if got := freshReports(lookAt(t, noon, c.text)); got != c.want {
			t.Errorf("%s: fresh are %q; want %q", c.name, got, c.want)
		}
	}
}

func TestARestoreThatAnAgentSawIsReadFromASnapshot(t *testing.T) {
	const marked = "apiVersion: ip-reconcile.dev/v1alpha1\nkind: SandboxReport\nmetadata: {name: w1, annotations: {ip-reconcile.dev/etcd-restored: \"2026-11-20T11:00:00Z\"}}\nobservedAt: \"2026-11-20T11:59:00Z\"\n"
	equal(t, "restore seen", lookAt(t, noon, marked).Reports[0].RestoreSeen.Format("15:04"), "11:00")
}
