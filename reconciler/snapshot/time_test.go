package snapshot_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

// A snapshot is judged at the newest time in it: everything in it had happened when it was taken. The first note says
// which object has that time.
func TestTime_OfASnapshot(t *testing.T) {
	lease := leaseAt("ip-reconcile", "w1", "2026-11-20T11:00:00.000000Z")
	pod := strings.Replace(runningPodAt("7"), "metadata:\n", "metadata:\n  creationTimestamp: \"2026-11-19T08:00:00Z\"\n",
		1)
	event := func(kind, fields string) map[string]string {
		return map[string]string{"x.yaml": "apiVersion: v1\nkind: " + kind +
			"\nmetadata: {namespace: default, name: a.1}\n" + fields + "\n"}
	}
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
		"an object newer than the timestamp file": {map[string]string{"timestamp": "2026-11-20 10:00:00\n", "x.yaml": lease},
			"2026-11-20T11:00:00Z", "Lease ip-reconcile/w1"},
		"the newest Lease": {map[string]string{"x.yaml": reportAt("w1", "2026-11-20T10:00:00Z") + lease + nodeObject("w2") +
			leaseAt("ip-reconcile", "w2", "2026-11-20T11:30:00.000000Z")}, "2026-11-20T11:30:00Z", "Lease ip-reconcile/w2"},
		"a report newer than every Lease": {map[string]string{"x.yaml": reportAt("w1", "2026-11-20T11:45:00Z") + lease},
			"2026-11-20T11:45:00Z", "SandboxReport w1"},
		"a kubelet's Lease": {map[string]string{"x.yaml": reportAt("w1", "2026-11-20T10:00:00Z") +
			leaseAt("kube-node-lease", "w3", "2026-11-20T11:00:00.000000Z")}, "2026-11-20T11:00:00Z",
			"Lease kube-node-lease/w3"},
		"a kubelet's heartbeat": {map[string]string{"x.yaml": "apiVersion: v1\nkind: Node\nmetadata: {name: w3}\n" +
			"status: {conditions: [{type: Ready, status: \"True\", lastHeartbeatTime: \"2026-11-20T11:10:00Z\"}]}\n"},
			"2026-11-20T11:10:00Z", "Node w3"},
		"an Event": {event("Event", `lastTimestamp: "2026-11-20T11:20:00Z"`), "2026-11-20T11:20:00Z",
			"Event default/a.1"},
		"a series of Events": {event("Event", `series: {lastObservedTime: "2026-11-20T11:20:01.5Z"}`),
			"2026-11-20T11:20:01.5Z", "Event"},
		"the last write": {map[string]string{"x.yaml": strings.Replace(nodeObject("w1"), "{name: w1}",
			`{name: w1, managedFields: [{time: "2026-11-20T10:09:00Z"}]}`, 1)}, "2026-11-20T10:09:00Z", "Node w1"},
		"another kind does not count": {event("Backup", `status: {startTime: "2027-01-01T00:00:00Z"}`),
			"2026-11-19T08:00:00Z", "Pod default/a"},
		"a time that is no present does not count": {map[string]string{"x.yaml": "apiVersion: v1\nkind: Pod\nmetadata: " +
			"{namespace: default, name: b, deletionTimestamp: \"2027-01-01T00:00:00Z\", annotations: {at: " +
			"\"2027-01-01T00:00:00Z\"}}\n"}, "2026-11-19T08:00:00Z", "Pod default/a"},
		"none that can be read": {map[string]string{"timestamp": "x"}, "2026-11-19T08:00:00Z", "Pod default/a"},
		"none":                  {nil, "2026-11-19T08:00:00Z", "Pod default/a"},
	} {
		files := map[string]string{"pool.yaml": onePool, "pods.yaml": pod}
		for name, text := range c.files {
			files[name] = text
		}
		f, err := snapshot.Open(folder(t, files), time.Time{}, "kube-system")
		check(t, err)
		o := observe(t, f)
		equal(t, says, o.Now.UTC().Format(time.RFC3339Nano), c.want)
		if !strings.HasPrefix(o.Warnings[0], "the snapshot's time is taken from ") || !strings.Contains(o.Warnings[0], c.by) {
			t.Errorf("%s: %q", says, o.Warnings)
		}
	}
	withoutTime := strings.Replace(onePool, `creationTimestamp: "2026-01-01T00:00:00Z"`, "generation: 8", 1)
	withoutTime = strings.Replace(withoutTime, "  generation: 9\n", "", 1)
	f, err := snapshot.Open(folder(t, map[string]string{"pool.yaml": withoutTime}), time.Time{}, home)
	if err != nil || !strings.Contains(observe(t, f).Warnings[0], "this machine's clock") {
		t.Errorf("without any time: %v", err)
	}
}

// A given time before the newest one makes objects too young. The snapshot is judged, and a note names both times.
func TestTime_Given(t *testing.T) {
	newest := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // of onePool
	for now, isEarly := range map[time.Time]bool{newest: false, newest.Add(time.Hour): false, newest.Add(-1): true} {
		f, err := snapshot.Open(folder(t, map[string]string{"pool.yaml": onePool}), now, "kube-system")
		check(t, err)
		o := observe(t, f)
		notes := strings.Join(o.Warnings, " ")
		if !o.Now.Equal(now) || strings.Contains(notes, "the snapshot's time") {
			t.Errorf("given %s: %s, %q", now, o.Now, notes)
		}
		if says := "--now 2025-12-31T23:59:59Z is before the newest time in the snapshot, 2026-01-01T00:00:00Z in " +
			"IPPool kube-system/10.0.0.0-24"; strings.Contains(notes, says) != isEarly {
			t.Errorf("given %s: %q", now, notes)
		}
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

// leaseOf is the Lease of a node's agent that confirms reportAt.
func leaseOf(namespace, node, observedAt, renewTime string) string {
	at, err := time.Parse(time.RFC3339, observedAt)
	if err != nil {
		panic(err)
	}
	hash := podstate.Hash(&v1alpha1.SandboxReport{ObservedAt: metav1.NewTime(at)})
	return strings.Replace(leaseAt(namespace, node, renewTime), "name: "+node+"}", "name: "+node+
		", annotations: {ip-reconcile.dev/report-hash: \""+hash+"\"}}", 1)
}

func nodeObject(node string) string {
	return "apiVersion: v1\nkind: Node\nmetadata: {name: " + node + "}\n---\n"
}

// freshReports are the names of the reports that may be relied upon.
func freshReports(o *facts.Observation) string {
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
	fresh := leaseOf("ip-reconcile", "w1", now, recent)
	const withoutTime = "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {namespace: x, name: w1}\n" +
		"spec: {holderIdentity: y}\n---\n"
	for _, c := range []struct{ name, text, want, notes string }{
		{"renewed within the minute", reportAt("w1", "2026-11-20T01:00:00Z") +
			leaseOf("ip-reconcile", "w1", "2026-11-20T01:00:00Z", recent), "w1 ", ""},
		{"renewed an hour ago", reportAt("w1", now) + leaseOf("ip-reconcile", "w1", now, old), "", ""},
		{"no Lease while another has one", reportAt("w1", now) + reportAt("w2", now) +
			leaseOf("ip-reconcile", "w2", now, recent), "w2 ", "no agent's Lease for the SandboxReports of w1, so"},
		{"no Lease while a node without a report has one", reportAt("w1", now) + nodeObject("w2") +
			leaseOf("ip-reconcile", "w2", now, recent), "", "kubectl get leases"},
		{"no Leases at all", reportAt("w1", now) + reportAt("w2", "2026-11-20T11:00:00Z"), "",
			"no agent's Lease for the SandboxReports of w1, w2, so"},
		{"kubelet's Leases are none", reportAt("w1", now) + leaseOf("kube-node-lease", "w1", now, recent), "",
			"kubectl get leases"},
		{"Leases of other things are none", reportAt("w1", now) + fresh + leaseAt("kube-system", "whereabouts", old) +
			leaseAt("x", "w1-db", old), "w1 ", ""},
		{"a Lease without annotations, renewed since", reportAt("w1", recent) + leaseAt("ip-reconcile", "w1", recent),
			"w1 ", ""},
		{"a Lease without annotations, renewed before", reportAt("w1", now) + leaseAt("ip-reconcile", "w1", recent), "",
			"the Leases of w1 are not of the same time"},
		{"a newer one without the hash is another's", reportAt("w1", now) + leaseOf("ip-reconcile", "w1", now, recent) +
			leaseAt("a", "w1", now) + leaseAt("z", "w1", now), "w1 ", ""},
		{"a Lease without a renewTime is none", reportAt("w1", now) + withoutTime, "", "kubectl get leases"},
		{"the Lease of another report", reportAt("w1", now) + leaseOf("ip-reconcile", "w1", "2026-11-20T11:59:00Z", recent),
			"", "the Leases of w1 are not of the same time"},
		{"a report of which a part is missing", strings.Replace(reportAt("w1", now), "observedAt", "bootID: b\nobservedAt",
			1) + fresh, "", "the Leases of w1 are not of the same time"},
		{"two Leases of one name: the newer", reportAt("w1", now) + leaseOf("old", "w1", now, old) + fresh +
			leaseOf("z", "w1", now, old), "w1 ", ""},
	} {
		o := observeFile(t, c.text)
		if got := freshReports(o); got != c.want {
			t.Errorf("%s: fresh are %q; want %q", c.name, got, c.want)
		}
		if notes := strings.Join(o.Warnings, " "); (notes == "") != (c.notes == "") || !strings.Contains(notes, c.notes) {
			t.Errorf("%s: notes %q; want %q", c.name, notes, c.notes)
		}
	}
}

func TestReports_EtcdRestore(t *testing.T) {
	const marked = "apiVersion: ip-reconcile.dev/v1alpha1\nkind: SandboxReport\n" +
		"metadata: {name: w1, annotations: {ip-reconcile.dev/etcd-restored: k3f7q2m9xa}}\n" +
		"observedAt: \"2026-11-20T11:59:00Z\"\n"
	equal(t, "restore seen", observeFile(t, marked).Reports.Or(nil)[0].RestoreNonce, "k3f7q2m9xa")
}
