package findings_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

func TestFindings_NotAttached(t *testing.T) {
	cluster := All(Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("9", "default/other", "box-9", "net1")), here,
		NAD("static", `{"ipam":{"type":"static"}}`), NAD("odd", "nonsense"))
	pod := UsualPod(Requesting("wb"))
	running := ReportingWorker(Sandbox("box-1", UsualUID))
	for _, c := range []struct {
		name  string
		want  int
		parts []Part
	}{
		{"a running pod", 1, []Part{pod, running}},
		{"its sandbox has another network's address", 1, []Part{pod,
			ReportingWorker(Sandbox("box-1", UsualUID, WithAddress("10.9.0.5", "")))}},
		{"it requests another network, too", 1, []Part{UsualPod(Requesting("static,wb")), running}},

		{"its status has the network", 0, []Part{UsualPod(Carrying("10.0.0.5"), Requesting("wb")), running}},
		{"its sandbox has an address of it", 0, []Part{pod, ReportingWorker(box1)}},
		{"an address of its sandbox cannot be read", 0, []Part{pod,
			ReportingWorker(Sandbox("box-1", UsualUID, WithAddress("nonsense", "")))}},
		{"a pool has its allocation", 0, []Part{UsualPool, pod, running}},
		{"the network has another IPAM", 0, []Part{UsualPod(Requesting("static")), running}},
		{"the definition cannot be read", 0, []Part{UsualPod(Requesting("odd")), running}},
		{"the definition does not exist", 0, []Part{UsualPod(Requesting("none")), running}},
		{"it is Pending", 0, []Part{UsualPod(Requesting("wb"), Phase("Pending")), running}},
		{"it is being deleted", 0, []Part{UsualPod(Requesting("wb"), DeletedAgo(time.Minute)), running}},
		{"it has no network-status", 1, []Part{UsualPod(NetworkStatus(""), Requesting("wb")), running}},
		{"it has no network-status, and its sandbox is unread", 0, []Part{UsualPod(NetworkStatus(""), Requesting("wb")),
			ReportingWorker(Sandbox("box-1", UsualUID, Unread))}},
		{"it has no network-status, and the report is expired", 1, []Part{UsualPod(NetworkStatus(""), Requesting("wb")),
			Node("worker-1"), StaleReport("worker-1", Sandbox("box-1", UsualUID))}},
		{"its network-status cannot be read", 0, []Part{UsualPod(NetworkStatus("nonsense"), Requesting("wb")), running}},
		{"no agents", 0, []Part{pod, Node("worker-1")}},
		{"the report is expired", 1, []Part{pod, Node("worker-1"), StaleReport("worker-1", Sandbox("box-1", UsualUID))}},
		{"the sandbox is young", 0, []Part{pod, ReportingWorker(func(r *podstate.Report) { r.WrittenAt = Now },
			Sandbox("box-1", UsualUID, CreatedAgo(30*time.Second)))}},
		{"the sandbox does not run", 0, []Part{pod, ReportingWorker(Sandbox("box-1", UsualUID, NotReady(Open)))}},
		{"the sandbox's addresses are unknown", 0, []Part{pod, ReportingWorker(Sandbox("box-1", UsualUID, Unread))}},
		{"the sandbox is another pod's", 0, []Part{pod, ReportingWorker(Sandbox("box-1", OtherUID))}},
		{"another node reports the sandbox", 0, []Part{pod, ReportingWorker(), Node("worker-2"),
			FreshReport("worker-2", Sandbox("box-1", UsualUID))}},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := FindingsOf(findings.NotAttached, append([]Part{cluster}, c.parts...)...)
			if len(found) != c.want {
				t.Fatalf("got %+v, want %d", found, c.want)
			}
			if c.want == 1 && (!slices.Equal(found[0].Pods, []string{"default/web-0"}) || found[0].Node != "worker-1" ||
				!strings.Contains(found[0].Message, "without the network default/wb that it requests")) {
				t.Errorf("got %+v", found[0])
			}
		})
	}
}

func TestFindings_ForeignPool(t *testing.T) {
	const n = 25
	foreign := func(edit func(i int, a *Allocation)) Part {
		var all []Allocation
		for i := range n {
			a := Alloc(fmt.Sprint(i+1), fmt.Sprint("elsewhere/web-", i), fmt.Sprint("foreign-", i), "net1")
			if edit != nil {
				edit(i, &a)
			}
			all = append(all, a)
		}
		return Pool("10.7.0.0-24", "10.7.0.0/24", all...)
	}
	one := func(podRef, id string) Part {
		return foreign(func(i int, a *Allocation) {
			if i == 7 {
				a.PodRef, a.ID = podRef, id
			}
		})
	}
	for _, c := range []struct {
		name  string
		want  int
		parts []Part
	}{
		{"all are foreign", 1, []Part{foreign(nil), ReportingWorker()}},
		{"beside a pool of this cluster", 1, []Part{foreign(nil), UsualPool, UsualPod(),
			ReportingWorker(Sandbox("box-1", UsualUID))}},
		{"one of a pod that exists", 0, []Part{one("default/web-0", "foreign-7"), UsualPod(), ReportingWorker()}},
		{"one of a sandbox that runs", 0, []Part{one("elsewhere/web-7", "box-1"),
			ReportingWorker(Sandbox("box-1", UsualUID))}},
		{"one of a sandbox that has ended here", 0, []Part{one("elsewhere/web-7", "box-1"),
			ReportingWorker(Gone("box-1", UsualUID))}},
		{"one of a remnant in a CNI cache here", 0, []Part{one("elsewhere/web-7", "box-1"),
			ReportingWorker(Attachment("box-1", UsualUID, time.Hour, Closed))}},
		{"one that cannot be read", 0, []Part{one("nonsense", "foreign-7"), ReportingWorker()}},
		{"a node does not report", 0, []Part{foreign(nil), ReportingWorker(), Node("worker-2")}},
		{"no agents", 0, []Part{foreign(nil), Node("worker-1")}},
		{"few", 0, []Part{Pool("10.7.0.0-24", "10.7.0.0/24", Alloc("1", "elsewhere/web-1", "foreign-1", "net1")),
			ReportingWorker()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := FindingsOf(findings.ForeignPool, c.parts...)
			if len(found) != c.want {
				t.Fatalf("got %+v, want %d", found, c.want)
			}
			if c.want == 1 && (found[0].Pool != "kube-system/10.7.0.0-24" ||
				!strings.HasPrefix(found[0].Message, "all 25 allocations of pool kube-system/10.7.0.0-24 are of pods")) {
				t.Errorf("got %+v", found[0])
			}
		})
	}
}
