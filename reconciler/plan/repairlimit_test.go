package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

// asking lets a pod request networks, without network-status.
func asking(networks string) PodEdit {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": networks} }
}

// carries is a sandbox of default/<pod> that carries addresses of a range, one on each interface.
func carries(id, pod, uid, cidr string, ips ...string) ReportEdit {
	return Sandbox(id, uid, OfPod(pod), func(b *v1alpha1.Sandbox) {
		for n, ip := range ips {
			b.Addresses = append(b.Addresses, v1alpha1.Address{IP: ip, IfName: fmt.Sprint("net", n+1), Network: "wb",
				Range: cidr})
		}
	})
}

// phantoms are sandboxes without a pod in the API, with some addresses each.
func phantoms(from, sandboxes, addresses int) ReportEdit {
	return func(r *podstate.Report) {
		for i := range sandboxes {
			var ips []string
			for n := range addresses {
				at := from + i*addresses + n
				ips = append(ips, fmt.Sprintf("10.0.%d.%d", at>>8, at&255))
			}
			name := fmt.Sprint("phantom-", from+i)
			carries("box-"+name, name, "uid-"+name, "10.0.0.0/16", ips...)(r)
		}
	}
}

// lastOf keeps the last element of each name.
func lastOf[T any](all []T, name func(T) string) []T {
	var kept []T
	for i, one := range all {
		if !slices.ContainsFunc(all[i+1:], func(next T) bool { return name(next) == name(one) }) {
			kept = append(kept, one)
		}
	}
	return kept
}

// boundedRepairs plans repairs behind the fence. Of pools and reports with one name the last counts.
func boundedRepairs(t *testing.T, parts ...Part) *plan.Repairs {
	t.Helper()
	_, made := boundedRepairsAfter(restore.State{}, parts...)
	return made
}

// boundedRepairsAfter is boundedRepairs with what is known of restores, and what is known then.
func boundedRepairsAfter(s restore.State, parts ...Part) (restore.State, *plan.Repairs) {
	o := Observe(append(parts, func(o *Observed) { o.FencedSince = o.Now.Add(-30 * time.Second) })...)
	o.Pools = lastOf(o.Pools, (*ippool.Pool).Ref)
	o.Reports = o.Reports.With(lastOf(o.Reports.Or(nil), func(r *podstate.Report) string { return r.Name }))
	s, o.Restored = s.Observe(o.Observation)
	a := Judged(o, facts.Policy{})
	return s.Settle(a.Judgement), plan.MakeRepairs(a, s, nil, nil, plan.Options{Repair: true})
}

const big = "10.0.0.0/16"

func bigPool(allocs ...Allocation) Part {
	return All(Pool("10.0.0.0-16", big, allocs...), NAD("wb", WhereaboutsConfig(big, "")),
		NAD("other", WhereaboutsConfig("10.9.0.0/16", "")), Node("worker-2"), FreshReport("worker-2"))
}

// A lying agent reports 400 sandboxes without pods. Nothing that its node writes allows more than 110 of them. What the
// API's pods request is written beside these.
func TestRepairLimit_ReportDoesNotRaiseIt(t *testing.T) {
	runsMany := func(n *corev1.Node) {
		n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("5000")}
	}
	status := func(p *corev1.Pod) {
		p.Annotations["k8s.v1.cni.cncf.io/network-status"] = `[{"name":"default/wb","interface":"net1"},{` +
			`"name":"default/wb","interface":"net2"}]`
	}
	web := func(ips ...string) ReportEdit { return carries("box-web", "web", "uid-web", big, ips...) }
	twoRanges := `{"cniVersion":"0.3.1","name":"wb","type":"macvlan","ipam":{"type":"whereabouts","ipRanges":[{` +
		`"range":"10.0.0.0/16"},{"range":"10.8.0.0/16"}]}}`
	for _, c := range []struct {
		says   string
		asked  int // written beside the 110
		report ReportEdit
		parts  []Part
	}{
		{"one of its sandboxes has 64 addresses", 0, phantoms(1000, 1, 64), nil},
		{"its kubelet says that it runs 5000 pods", 0, phantoms(1000, 1, 1), []Part{Node("worker-1", runsMany)}},
		{"its pod asks for the network", 1, web("10.0.9.1"), []Part{Pod("web", UID("uid-web"), asking("wb"))}},
		{"its pod asks for one interface, and the report gives it 64 addresses", 1, web(manyAddresses(64)...),
			[]Part{Pod("web", UID("uid-web"), asking("wb"))}},
		{"its pod asks for two interfaces", 2, web("10.0.9.1", "10.0.9.2", "10.0.9.3"),
			[]Part{Pod("web", UID("uid-web"), asking("wb@net1,wb@net2"))}},
		{"its pod asks for one, and its network-status has two", 1, web("10.0.9.1", "10.0.9.2"),
			[]Part{Pod("web", UID("uid-web"), asking("wb"), status)}},
		{"its pod asks for two, and its network-status has both", 2, web("10.0.9.1", "10.0.9.2"),
			[]Part{Pod("web", UID("uid-web"), asking("wb,wb"), status)}},
		{"its pod is being deleted", 1, web("10.0.9.1"), []Part{Pod("web", UID("uid-web"), asking("wb"), status,
			DeletedAgo(time.Second))}},
		{"its pod asks for two ranges with one interface", 2, func(r *podstate.Report) {
			web("10.0.9.1")(r)
			last := &r.Sandboxes[len(r.Sandboxes)-1]
			last.Addresses = append(last.Addresses, v1alpha1.Address{IP: "10.8.0.1", IfName: "net1", Network: "wb",
				Range: "10.8.0.0/16"})
		}, []Part{NAD("wb", twoRanges), Pool("10.8.0.0-16", "10.8.0.0/16"), Pod("web", UID("uid-web"), asking("wb"))}},
		{"its pod asks for another network", 0, web("10.0.9.1"), []Part{Pod("web", UID("uid-web"), asking("other"))}},
		{"its pod asks for none", 0, web("10.0.9.1"), []Part{Pod("web", UID("uid-web"))}},
		{"it is the address of its pod in the default network", 1, web("10.0.9.1", "10.0.9.2"),
			[]Part{Pod("web", UID("uid-web"), PodIPs("10.0.9.1"))}},
		{"the pod is another node's", 0, web("10.0.9.1"), []Part{Pod("web", UID("uid-web"), OnNode("worker-2"),
			asking("wb"))}},
		{"the pod is bound to no node", 0, web("10.0.9.1"), []Part{Pod("web", UID("uid-web"), OnNode(""),
			Phase(corev1.PodPending), asking("wb"))}},
		{"the pod has another UID", 0, web("10.0.9.1"), []Part{Pod("web", UID("uid-next"), asking("wb"))}},
		{"the pod has finished", 0, web("10.0.9.1"), []Part{Pod("web", UID("uid-web"), Phase(corev1.PodSucceeded),
			asking("wb"))}},
		{"its pod has an entry", 0, web("10.0.9.1"),
			[]Part{bigPool(Alloc("2400", "default/web", "box-web", "net1")), Pod("web", UID("uid-web"), asking("wb"))}},
		{"an entry of its pod's last sandbox is rewritten", 1, web("10.0.9.1"),
			[]Part{bigPool(Alloc("2305", "default/web", "box-of-before", "net1")), Pod("web", UID("uid-web"), asking("wb"))}},
		{"it makes up a second sandbox of its pod", 1, func(r *podstate.Report) {
			web("10.0.9.1")(r)
			carries("box-web-2", "web", "uid-web", big, "10.0.9.2")(r)
		}, []Part{Pod("web", UID("uid-web"), asking("wb"))}},
	} {
		t.Run(c.says, func(t *testing.T) {
			made := boundedRepairs(t, append([]Part{bigPool(), Node("worker-1"), FreshReport("worker-1", phantoms(256, 400, 1),
				c.report)}, c.parts...)...)
			made.Due = slices.DeleteFunc(made.Due, func(c plan.Repair) bool {
				return c.Finding.Repair.Key == "" // a reservation
			})
			if got := len(made.Due); got != 110+c.asked {
				t.Errorf("%d are written, want 110 and %d; of %d", got, c.asked, got+len(made.Refused))
			}
		})
	}
}

func manyAddresses(n int) (ips []string) {
	for i := range n {
		ips = append(ips, fmt.Sprintf("10.0.9.%d", i+1))
	}
	return ips
}

// After a restore whole nodes of pods are phantoms. One agent cannot invent a restore.
func TestRepairLimit_AfterRestore(t *testing.T) {
	shows := func(why string) Part { return func(o *Observed) { o.Restored = why } }
	reports := func(r *podstate.Report) { r.RestoreNonce = "k3f7q2m9xa" }
	for _, c := range []struct {
		says  string
		want  int
		parts []Part
	}{
		{"nothing shows one", 110, nil},
		{"this process shows it", 1000, []Part{shows("resourceVersion 90 after 100")}},
		{"one agent of three reports it", 110, []Part{FreshReport("worker-1", phantoms(256, 1200, 1), reports)}},
		{"another replica reports it, by one agent", 110,
			[]Part{shows("reported by another replica: reported by the agent on node worker-1")}},
		{"two agents of three report it", 1000, []Part{FreshReport("worker-1", phantoms(256, 1200, 1), reports),
			FreshReport("worker-2", reports)}},
		{"two agents have reported one two days ago", 110, []Part{FreshReport("worker-1", phantoms(256, 1200, 1), reports),
			FreshReport("worker-2", reports)}},
	} {
		t.Run(c.says, func(t *testing.T) {
			parts := append([]Part{bigPool(), Node("worker-1"), FreshReport("worker-1", phantoms(256, 1200, 1)),
				Node("worker-3"), FreshReport("worker-3")}, c.parts...)
			var s restore.State
			if strings.HasSuffix(c.says, "two days ago") {
				s, _ = boundedRepairsAfter(s, append(parts, At(Now.Add(-48*time.Hour)))...)
			}
			_, made := boundedRepairsAfter(s, parts...)
			if got := len(made.Due); got != c.want {
				t.Errorf("%d of %d are written, want %d", got, got+len(made.Refused), c.want)
			}
		})
	}
}

// All nodes together get at most a thousand entries that no pod requests.
func TestRepairLimit_AllNodes(t *testing.T) {
	parts := []Part{bigPool()}
	for i := range 12 {
		name := fmt.Sprint("liar-", i)
		parts = append(parts, Node(name), FreshReport(name, phantoms(256*(i+1), 100, 1)))
	}
	if got := len(boundedRepairs(t, parts...).Due); got != 1000 {
		t.Errorf("%d of 1200 are written", got)
	}
	restored := append(parts, func(o *Observed) { o.Restored = "resourceVersion 90 after 100" })
	if got := len(boundedRepairs(t, restored...).Due); got != 1200 {
		t.Errorf("after a restore %d of 1200 are written", got)
	}
}

// A small pool is used by two nodes, one of which runs pods that the API has bound there. A restore has lost the
// entries: the next ADD hands out the address of an entry that is not written.
func TestRepairLimit_SmallPools(t *testing.T) {
	for _, c := range []struct{ pods, addresses, withheld int }{{4, 1, 0}, {6, 1, 0}, {1, 6, 2}, {2, 3, 1}} {
		parts := []Part{Pool("10.0.0.0-29", "10.0.0.0/29"), NAD("wb", WhereaboutsConfig("10.0.0.0/29", "")), Node("worker-1"),
			Node("worker-2"), FreshReport("worker-2")}
		var sandboxes []ReportEdit
		ip := 0
		for i := range c.pods {
			name, uid := fmt.Sprint("web-", i), fmt.Sprint("uid-", i)
			parts = append(parts, Pod(name, UID(uid), asking("wb")))
			var ips []string
			for range c.addresses {
				ip++
				ips = append(ips, fmt.Sprint("10.0.0.", ip))
			}
			sandboxes = append(sandboxes, carries("box-"+name, name, uid, "10.0.0.0/29", ips...))
		}
		made := boundedRepairs(t, append(parts, FreshReport("worker-1", sandboxes...))...)
		if len(made.Refused) != c.withheld || len(made.Due) != ip-c.withheld {
			t.Errorf("%d pods with %d addresses: %d due, %d withheld, want %d withheld", c.pods, c.addresses, len(made.Due),
				len(made.Refused), c.withheld)
		}
	}
}

// Otherwise a fence would stand for repairs that are not made.
func TestMakeRepairs_Paused(t *testing.T) {
	for _, paused := range []bool{false, true} {
		o := Observe(Pool("10.0.0.0-24", "10.0.0.0/24"), ReportingWorker(Sandbox("box-1", UsualUID,
			WithAddress("10.0.0.5", ""))), UsualPod(), func(o *Observed) { o.Paused = paused })
		made := plan.MakeRepairs(Judged(o, facts.Policy{}), restore.State{}, nil, nil, plan.Options{DryRun: true})
		if want := map[bool]int{false: 1}[paused]; made.Total != want || len(made.Due) != want {
			t.Errorf("paused %v: %d are to be repaired, and %d now", paused, made.Total, len(made.Due))
		}
	}
}
