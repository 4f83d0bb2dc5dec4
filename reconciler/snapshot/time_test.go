package snapshot_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

// A must-gather is judged at the time when it was gathered. The first note says what that time is taken from.
func TestTime_OfASnapshot(t *testing.T) {
	lease := leaseAt("ip-reconcile", "w1", "2026-11-20T11:00:00.000000Z")
	pod := strings.Replace(runningPodAt("7"), "metadata:\n", "metadata:\n  creationTimestamp: \"2026-11-19T08:00:00Z\"\n",
		1)
	for says, c := range map[string]struct {
		files    map[string]string
		want, by string
	}{
		"the beginning that its timestamp file has": {map[string]string{"timestamp": "2026-11-20 13:00:00.5 +0100 CET " +
			"m=+0.1\n2026-11-20 13:09:00 +0100 CET\n"}, "2026-11-20T12:00:00.5Z", "timestamp file"},
		"a timestamp without a zone": {map[string]string{"image/timestamp": "2026-11-20 12:00:00\n"},
			"2026-11-20T12:00:00Z", "timestamp file"},
		"the earliest of two": {map[string]string{"timestamp": "2026-11-20 12:00:00\n",
			"image/timestamp": "2026-11-20 12:05:00\n"}, "2026-11-20T12:00:00Z", "timestamp file"},
		"the newest Lease": {map[string]string{"x.yaml": reportAt("w1", "2026-11-20T10:00:00Z") + lease + nodeObject("w2") +
			leaseAt("ip-reconcile", "w2", "2026-11-20T11:30:00.000000Z")}, "2026-11-20T11:30:00Z", "agent's Lease"},
		"a report newer than every Lease": {map[string]string{"x.yaml": reportAt("w1", "2026-11-20T11:45:00Z") + lease},
			"2026-11-20T11:45:00Z", "newest SandboxReport"},
		"Leases of kubelet and others do not count": {map[string]string{"x.yaml": reportAt("w1", "2026-11-20T10:00:00Z") +
			reportAt("w2", "2026-11-20T10:30:00Z") +
			leaseAt("kube-node-lease", "w1", "2026-11-20T11:00:00.000000Z") +
			leaseAt("kube-system", "whereabouts",
				"2026-11-20T11:00:00.000000Z")}, "2026-11-20T10:30:00Z", "newest SandboxReport"},
		"none that can be read": {map[string]string{"timestamp": "x"}, "2026-11-19T08:00:00Z", "its newest object"},
		"none":                  {nil, "2026-11-19T08:00:00Z", "its newest object"},
	} {
		files := map[string]string{"pool.yaml": onePool, "pods.yaml": pod}
		for name, text := range c.files {
			files[name] = text
		}
		f, err := snapshot.Open(folder(t, files), time.Time{}, "kube-system")
		if err != nil {
			t.Fatal(err)
		}
		o := observe(t, f)
		equal(t, says, o.Now.UTC().Format(time.RFC3339Nano), c.want)
		if !strings.HasPrefix(o.Warnings[0], "the snapshot's time is taken from ") || !strings.Contains(o.Warnings[0], c.by) {
			t.Errorf("%s: %q", says, o.Warnings)
		}
	}
	f, err := snapshot.Open(folder(t, map[string]string{"pool.yaml": onePool}), time.Time{}, home)
	if err != nil || !strings.Contains(observe(t, f).Warnings[0], "this machine's clock") {
		t.Errorf("without any time: %v", err)
	}
	f, err = snapshot.Open(folder(t, map[string]string{"pool.yaml": onePool, "pods.yaml": pod}), time.Unix(1e9, 0),
		"kube-system")
	if err != nil {
		t.Fatal(err)
	}
	if o := observe(t, f); !o.Now.Equal(time.Unix(1e9, 0)) ||
		strings.Contains(strings.Join(o.Warnings, " "), "the snapshot's time") {
		t.Errorf("given: %s, %q", o.Now, o.Warnings)
	}
}

func reportAt(node, observedAt string) string {
	return "apiVersion: ip-reconcile.dev/v1alpha1\nkind: SandboxReport\nmetadata: {name: " + node + "}\nobservedAt: \"" +
		observedAt + "\"\n---\n"
}

func leaseAt(namespace, node, renewTime string) string {
	return "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {namespace: " + namespace + ", name: " + node +
		"}\nspec: {renewTime: \"" + renewTime + "\"}\n---\n"
}

func nodeObject(node string) string {
	return "apiVersion: v1\nkind: Node\nmetadata: {name: " + node + "}\n---\n"
}

// freshReports are the names of the reports that may be relied upon.
func freshReports(o *judge.Observation) string {
	var names string
	for _, r := range o.Reports.Or(nil) {
		if r.IsFresh(o.Now) {
			names += r.Name + " "
		}
	}
	return names
}

func TestReports_FreshByTheirLeases(t *testing.T) {
	const now, recent, old = "2026-11-20T12:00:00Z", "2026-11-20T11:59:30.000000Z", "2026-11-20T11:00:00.000000Z"
	for _, c := range []struct{ name, text, want string }{
		{"renewed within the minute", reportAt("w1", "2026-11-20T01:00:00Z") + leaseAt("ip-reconcile", "w1", recent), "w1 "},
		{"renewed an hour ago", reportAt("w1", now) + leaseAt("ip-reconcile", "w1", old), ""},
		{"no Lease while another has one", reportAt("w1", now) + reportAt("w2", now) + leaseAt("ip-reconcile", "w2", recent),
			"w2 "},
		{"no Lease while a node without a report has one", reportAt("w1", now) + nodeObject("w2") +
			leaseAt("ip-reconcile", "w2", recent), ""},
		{"no Leases at all: observed within the minute", reportAt("w1", "2026-11-20T11:59:30Z") +
			reportAt("w2", "2026-11-20T11:00:00Z"), "w1 "},
		{"kubelet's Leases are none", reportAt("w1", now) + leaseAt("kube-node-lease", "w1", old), "w1 "},
		{"Leases of other things are none", reportAt("w1", now) + leaseAt("kube-system", "whereabouts", old) +
			leaseAt("x", "w1-db", old), "w1 "},
		{"a Lease without a renewTime is none", reportAt("w1", now) +
			"apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {namespace: x, name: w1}\nspec: {holderIdentity: y}\n",
			"w1 "},
		{"two Leases of one name: the newer", reportAt("w1", now) + leaseAt("old", "w1", old) +
			leaseAt("ip-reconcile", "w1", recent) + leaseAt("z", "w1", old), "w1 "},
	} {
		if got := freshReports(observeFile(t, c.text)); got != c.want {
			t.Errorf("%s: fresh are %q; want %q", c.name, got, c.want)
		}
	}
}

func TestReports_EtcdRestore(t *testing.T) {
	const marked = "apiVersion: ip-reconcile.dev/v1alpha1\nkind: SandboxReport\n" +
		"metadata: {name: w1, annotations: {ip-reconcile.dev/etcd-restored: \"2026-11-20T11:00:00Z\"}}\n" +
		"observedAt: \"2026-11-20T11:59:00Z\"\n"
	equal(t, "restore seen", observeFile(t, marked).Reports.Or(nil)[0].RestoreDetectedAt.Format("15:04"), "11:00")
}
