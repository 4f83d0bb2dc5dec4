package screen

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/audit"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/ranges"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

var update = flag.Bool("update", false, "write testdata/screens.txt")

func planned(t testing.TB, parts ...Part) *view.CheckReport {
	t.Helper()
	r := &reconciler.Reconciler{Options: plan.Options{ConfirmAfter: 15 * time.Minute}, Process: &reconciler.Process{}}
	j := Judged(Observe(parts...), facts.Policy{})
	checked := &reconciler.Result{Assessment: j}
	return view.NewCheckReport(view.PlannedResult(checked, r.Plan(t.Context(), j)), view.Filter{})
}

func text(s Screen, d view.Document) string {
	s.All, s.ConfirmAfter, s.Width = true, 15*time.Minute, 100
	switch d := d.(type) {
	case *view.CheckReport:
		s.Check(d)
	case *view.RunReport:
		s.Run(d)
	}
	return s.String()
}

// many are 60 entries of which 45 are proven to be Stale.
func many() Part {
	var entries []Allocation
	var gone []ReportEdit
	for i := range 60 {
		id := fmt.Sprint("box-", i)
		entries = append(entries, Alloc(fmt.Sprint(i+1), fmt.Sprintf("default/web-%d", i), id, "net1"))
		if i < 45 {
			gone = append(gone, Gone(id, "uid-1"))
		}
	}
	return All(Pool("10.0.0.0-24", "10.0.0.0/24", entries...), Node("worker-1"), FreshReport("worker-1", gone...))
}

// outage has an address that two pods carry, which is not recorded, beside defects that are less urgent.
func outage() Part {
	return All(UsualPool, UsualPod(Carrying("10.0.0.7")), Pod("web-9", Carrying("10.0.0.7")),
		NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")), Node("worker-1"), Node("worker-2"), StaleReport("worker-2"),
		FreshReport("worker-1", Gone("box-1", "uid-of-another"), Sandbox("box-7", UsualUID, WithAddress("10.0.0.7", "")),
			Sandbox("box-9", UsualUID, OfPod("web-9"), WithAddress("10.0.0.7", ""))),
		Reservation("nonsense", "default/x", LongAgo))
}

// aRun released two of six entries, and repaired one finding of three.
func aRun(dryRun bool) *view.RunReport {
	j := Judged(Observe(Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("1", "default/a", "b1", "net1"),
		Alloc("2", "default/b", "b2", "net1"), Alloc("3", "default/c", "b3", "net1"),
		Alloc("4", "default/d", "b4", "net1"), Alloc("5", "default/e", "b5", "net1"), Alloc("6", "default/f", "b6",
			"net1")), Reservation("10.0.0.1", "default/a", LongAgo),
		Reservation("10.0.0.9", "default/lone", LongAgo), Node("worker-1"), FreshReport("worker-1", Gone("b1", "u1"),
			Gone("b2", "u2"))), facts.Policy{})
	refuse := func(i int, why plan.Refusal, detail string, at time.Duration, also ...plan.Gate) plan.Refused {
		g := plan.Gate{Why: why, Detail: detail}
		if at > 0 {
			g.At = Now.Add(at)
		}
		return plan.Refused{Item: j.Allocations[i], Gate: g, Also: also}
	}
	finding := func(kind findings.Kind, ip string) findings.Finding {
		return findings.Finding{Kind: kind, IP: ip, Pool: "kube-system/10.0.0.0-24", Message: "a finding of " + ip}
	}
	j.Findings = []findings.Finding{finding(findings.Misrecorded, "10.0.0.4"), finding(findings.Unrecorded, "10.0.0.40"),
		finding(findings.Unrecorded, "10.0.0.41")}
	paused := plan.Gate{Why: plan.Paused, Detail: "the pool is paused", Pool: "kube-system/10.0.0.0-24"}
	out := &reconciler.Result{Assessment: j, Repaired: j.Findings[:1],
		Unrepaired: []plan.Unrepaired{{Finding: j.Findings[1], Why: plan.Breaker, Detail: "too many"},
			{Finding: j.Findings[2], Why: plan.Breaker, Detail: "too many"}, {Finding: j.Findings[0],
				Why: plan.WriteFailed, Detail: "refused by the API server"}}}
	if dryRun {
		out.Refused = []plan.Refused{refuse(1, plan.DryRunRefusal, "a dry run", 0),
			refuse(0, plan.DryRunRefusal, "a dry run", 0), refuse(2, plan.AwaitingConfirmation, "", time.Minute),
			refuse(3, plan.AwaitingConfirmation, "", 25*time.Hour), refuse(4, paused.Why, paused.Detail, 0)}
		return view.NewRunReport(out, true, view.Filter{})
	}
	out.Released = []*judge.Item{j.Allocations[1], j.Reservations[0], j.Allocations[0]}
	out.Refused = []plan.Refused{refuse(5, plan.WriteFailed, "the pool changed", 0),
		refuse(2, plan.Breaker, "too many at once", 0), refuse(3, plan.AwaitingConfirmation, "", time.Hour, paused)}
	return view.NewRunReport(out, false, view.Filter{})
}

// sixPools are one that is full and for which a pod waits, one with a third free, one of which nothing is
// known, one without a usable address, and ranges of IPv6.
func sixPools() Part {
	waits := Pod("waits", Phase("Pending"), func(p *corev1.Pod) {
		p.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": "full"}
		p.CreationTimestamp = metav1.NewTime(Now.Add(-time.Minute))
	})
	two := []Allocation{Alloc("1", "default/x", "b1", "net1"), Alloc("2", "default/y", "b2", "net1")}
	return All(waits, Pod("bystander"), NAD("full", WhereaboutsConfig("10.0.0.0/30", "")),
		Pool("10.0.0.0-30", "10.0.0.0/30", two...),
		NAD("third", WhereaboutsConfig("10.1.0.0/29", "", `"range_end":"10.1.0.3"`)), Pool("10.1.0.0-29", "10.1.0.0/29",
			two...), Pool("10.2.0.0-30", "10.2.0.0/30"),
		NAD("none", WhereaboutsConfig("10.3.0.0/31", "")), Pool("10.3.0.0-31", "10.3.0.0/31"), NAD("six",
			WhereaboutsConfig("fd00::/64", "")), Pool("fd00---64", "fd00::/64"),
		NAD("most", WhereaboutsConfig("fd01::/64", "", `"exclude":["fd01::/66"]`)), Pool("fd01---64", "fd01::/64"))
}

func poolScreens(t *testing.T) (all, each string) {
	t.Helper()
	j := Judged(Observe(sixPools()), facts.Policy{})
	u := usage.Of(j)
	out := &reconciler.Result{Assessment: j}
	list, details := &Screen{Width: 100}, &Screen{ConfirmAfter: 15 * time.Minute, Width: 100}
	list.Pools(view.NewPoolsReport(out, u))
	details.Pool(view.NewPoolReport(out, u, u.All))
	return list.String(), details.String()
}

// newRangeScreen has a pool of which an allocation of each verdict would be outside.
func newRangeScreen(t *testing.T) string {
	t.Helper()
	j := Judged(Observe(Pool("10.0.0.0-29", "10.0.0.0/29", Alloc("1", "default/web-1", "b1", "net1"),
		Alloc("4", "default/web-4", "b4", "net1"), Alloc("5", "no podref", "b5", "net1"), Alloc("6", "default/gone", "b6",
			"net1")), Pod("web-1", Carrying("10.0.0.1")), Pod("web-4", Carrying("10.0.0.4"))), facts.Policy{})
	u := usage.Of(j)
	s := &Screen{ConfirmAfter: time.Minute, Width: 100}
	p, err := ranges.OfRange(j.Facts(), u, u.All[0], ranges.Bounds{Range: "10.0.0.0/30"})
	if err != nil {
		t.Fatal(err)
	}
	c := ranges.Of(j, u, p)
	fits, err := c.Fits(j, 2, intstr.FromInt32(1))
	if err != nil {
		t.Fatal(err)
	}
	steps := []view.Advice{{Why: "Do this.", Command: "kubectl edit x"}, {Why: "Then that."}}
	s.PoolCheck(view.NewPoolCheck(&reconciler.Result{Assessment: j}, u, c, fits, steps))
	return s.String()
}

// comparisonScreen has two clusters with so many addresses in common, and what may be in common.
func comparisonScreen(t *testing.T, s *Screen, n int) string {
	t.Helper()
	on := func(name, master, cidr string) Part {
		return NAD(name, strings.Replace(WhereaboutsConfig(cidr, ""), `"macvlan"`, `"macvlan","master":"`+master+`"`, 1))
	}
	cluster := func(label string, parts ...Part) view.Compared {
		var entries []Allocation
		for i := range n {
			entries = append(entries, Alloc(fmt.Sprint(i+1), fmt.Sprintf("default/%s-%d", label, i), fmt.Sprint("box-", i),
				"net1"))
		}
		parts = append(parts, on("wb", "eth1", "10.0.0.0/24"), Pool("10.0.0.0-24", "10.0.0.0/24", entries...),
			Pod("bystander"), ReportingWorker(Sandbox("box-0", "uid-0", OfPod("bystander"))))
		out := &reconciler.Result{Assessment: Judged(Observe(parts...), facts.Policy{})}
		return view.Compared{Label: label, Cluster: view.Cluster{Snapshot: "dumps/" + label, UID: "uid-1"}, Result: out}
	}
	both := [2]view.Compared{
		cluster("east", on("other", "eth7", "10.7.0.0/24"), Pool("10.8.0.0-24", "10.8.0.0/24", Alloc("1", "default/lone",
			"box-8", "net1"))),
		cluster("west", on("other", "eth8", "10.7.0.0/25"), NAD("bare", WhereaboutsConfig("10.7.0.0/25", "")),
			on("lone", "eth1", "10.8.0.0/24"), Reservation("10.8.0.1", "default/kept", LongAgo), Pool("10.8.0.0-24",
				"10.8.0.0/24"), ReportsUnknown("forbidden"))}
	c, err := ranges.Compare(ranges.Cluster{Label: "east", Assessment: both[0].Assessment},
		ranges.Cluster{Label: "west", Assessment: both[1].Assessment}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Comparison(view.NewComparison(both, []string{"east/x=west/y"}, c))
	return s.String()
}

// retireScreen has pools in each state of a retirement.
func retireScreen(isDryRun bool) string {
	s := &Screen{Width: 100}
	leftover := []view.RetireObstacle{{Kind: "Leftover", Detail: "it is stale", IP: "10.4.0.1", PodRef: "default/gone"},
		{Kind: "Recent", Detail: "it must stay so for 2m0s, so that an ADD that began before has ended"}}
	s.Retire(&view.RetireReport{DryRun: isDryRun, Pools: []view.RetiredPool{
		{Pool: "kube-system/10.0.0.0-24", Range: "10.0.0.0/24", State: "Kept", Obstacles: []view.RetireObstacle{
			{Kind: "InUse", Detail: "it runs", IP: "10.0.0.1", PodRef: "default/web-0"},
			{Kind: "Defined", Detail: "NetworkAttachmentDefinition default/a leads to it: the next ADD would create it again"}},
			Workloads: []view.Owner{{Name: "default/StatefulSet/web", Entries: 1}}},
		{Pool: "kube-system/10.1.0.0-24", Range: "10.1.0.0/24", State: "Kept", Detail: "the write failed"},
		{Pool: "kube-system/10.2.0.0-24", Range: "10.2.0.0/24", State: "Retired"},
		{Pool: "kube-system/10.3.0.0-24", Range: "10.3.0.0/24", State: "Absent"},
		{Pool: "kube-system/10.4.0.0-24", Range: "10.4.0.0/24", State: "WouldBeRetired", Obstacles: leftover},
	}})
	return s.String()
}

// unusedScreen has unused pools, and then a definition that cannot be read.
func unusedScreen() string {
	s := &Screen{Width: 100}
	for _, more := range []Part{Nothing, NAD("bad", "{")} {
		j := Judged(Observe(sixPools(), Pool("red-10.5.0.0-24", "10.5.0.0/24"), more), facts.Policy{})
		u := usage.Of(j)
		u.KeepUnused(j)
		d := view.NewPoolsReport(&reconciler.Result{Assessment: j}, u)
		for i := range d.Pools {
			d.Pools[i].DeleteCommand = "delete " + d.Pools[i].Pool
		}
		s.Pools(d)
		s.Line("")
	}
	return s.String()
}

// history has a release, a refusal and a pause, and records that are missing.
func history(hasWords, isVerify bool) string {
	at := func(minute int) time.Time { return Now.Add(time.Duration(minute) * time.Minute) }
	by := audit.Origin{Actor: "system:serviceaccount:kube-system:ip-reconcile", Command: "serve", Run: "0a0a0a0a"}
	alice := audit.Origin{Actor: "alice", Command: "release", Run: "0b0b0b0b"}
	entry := audit.Entry{Key: "5", PodRef: "default/web-0", ContainerID: strings.Repeat("ab", 32), IfName: "net1"}
	d := &view.HistoryReport{Checked: 5, Records: []audit.Record{
		{Seq: 1, Time: at(0), What: audit.Paused, Origin: by, Pool: "kube-system/10.0.0.0-24",
			Message: "pool kube-system/10.0.0.0-24 is paused by its annotation ip-reconcile.dev/paused"},
		{Seq: 2, Time: at(1), What: audit.Refused, Origin: alice, Pool: "kube-system/10.0.0.0-24", IP: "10.0.0.5",
			Entry: entry, Verdict: judge.Stale, Reason: "PodGone", Refusal: "Paused", Row: "gone-ended",
			Message: "pool kube-system/10.0.0.0-24 is paused by its annotation ip-reconcile.dev/paused"},
		{Seq: 3, Time: at(2), What: audit.Overridden, Origin: alice, Pool: "kube-system/10.0.0.0-24", IP: "10.0.0.5",
			Entry: entry, Verdict: judge.Stale, Reason: "NodeUnreachable", Row: "without-report-unreachable",
			Message: "no fresh SandboxReport exists for worker-4", Because: "worker-4 was scrapped"},
	}, Faults: []audit.Fault{{Place: "kube-system/ip-reconcile-history-0:4",
		Message: "Records are missing: record 5 follows record 3."}}}
	s := &Screen{Width: 100}
	s.History(d, hasWords, isVerify)
	return s.String()
}

// sysdump has a bundle with everything, and one without the cluster.
func sysdump() string {
	s := &Screen{Width: 100}
	s.Sysdump(&view.Sysdump{Files: []string{"pods.json", "status.txt"},
		Manifest: snapshot.Manifest{Lists: []snapshot.ListFile{{File: "pods.json"}}}}, "a.tgz",
		"ip-reconcile check --snapshot a.tgz --all --agents=required")
	s.Sysdump(&view.Sysdump{Files: []string{"manifest.json"},
		Missing: []string{"objects: list pods: forbidden", "logs/a.log: refused"}}, "b.tgz", "")
	return s.String()
}

// statusScreen has a line of each level, and an error with its steps.
func statusScreen(s *Screen) string {
	h := view.Header{Cluster: view.Cluster{Server: "https://10.0.0.1:6443", Context: "lab"}, ObservedAt: Now}
	if !s.NoHeaders {
		s.Head(h)
	}
	s.Status(view.NewStatusReport(Now, []view.StatusLine{
		{ID: "one", Level: view.LevelOK, Message: "All is well."},
		{ID: "two", Level: view.LevelWarning, Message: "Somebody should know.", Next: "kubectl get b"},
		{ID: "three", Level: view.LevelUnknown, Message: "Not known."},
		{ID: "four", Level: view.LevelError, Message: "It does not work, " + strings.Repeat("and here is why ", 9) +
			"and that is all.", Next: "kubectl get a", Advice: []view.Advice{{Why: "See why.", Command: "kubectl get c"}}},
	}))
	return s.String()
}

func TestScreens_Golden(t *testing.T) {
	leak := All(UsualPool, ReportingWorker(Gone("box-1", UsualUID)))
	pools, details := poolScreens(t)
	var got strings.Builder
	for _, c := range []struct{ name, screen string }{
		{"a leak with a reservation, and a reservation alone", text(Screen{}, planned(t, leak,
			Reservation("10.0.0.9", "default/lone", LongAgo), Reservation("10.0.0.5", "default/web-0", LongAgo)))},
		{"without headers", text(Screen{NoHeaders: true}, planned(t, leak))},
		{"wide", text(Screen{Wide: true}, planned(t, leak))},
		{"not confirmed", text(Screen{}, planned(t, UsualPool, ReportingWorker()))},
		{"definitions are unknown", text(Screen{}, planned(t, UsualPool, UsualPod(Carrying("10.0.0.5")), func(o *Observed) {
			o.NADs = facts.Unknown[map[types.NamespacedName]*ippool.NAD](errors.New("list network-attachment-definitions: 403"))
		}))},
		{"paused", text(Screen{}, planned(t, leak, func(o *Observed) { o.Paused = true }))},
		{"its pool is paused", text(Screen{}, planned(t, leak, func(o *Observed) { o.Pools[0].Paused = true }))},
		{"an outage comes first", text(Screen{}, planned(t, outage()))},
		{"many rows are grouped", text(Screen{Cut: true}, planned(t, many()))},
		{"a run", text(Screen{}, aRun(false))},
		{"a dry run", text(Screen{}, aRun(true))},
		{"pools", pools}, {"each pool", details}, {"a new range", newRangeScreen(t)}, {"unused pools", unusedScreen()},
		{"pools retire", retireScreen(false)}, {"pools retire --dry-run", retireScreen(true)},
		{"two clusters", comparisonScreen(t, &Screen{Width: 100}, 1)},
		{"two clusters without headers", comparisonScreen(t, &Screen{NoHeaders: true}, 1)},
		{"history", history(false, false)}, {"history of an address", history(true, false)},
		{"history --verify", history(true, true)}, {"sysdump", sysdump()},
		{"status", statusScreen(&Screen{Width: 100})},
		{"status without headers", statusScreen(&Screen{Width: 60, NoHeaders: true})},
		{"a node that is not Ready", text(Screen{}, planned(t, Pool("10.0.0.0-24", "10.0.0.0/24", UsualAllocation),
			Node("worker-1", NotReadyFor(time.Hour))))},
		{"nothing to do", text(Screen{}, planned(t, Node("worker-1")))},
	} {
		fmt.Fprintf(&got, "=== %s\n%s\n", c.name, c.screen)
	}
	const file = "testdata/screens.txt"
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || got.String() != string(want) {
		t.Errorf("%v: the screens are (see with -update and git diff):\n%s", err, &got)
	}
	cut := comparisonScreen(t, &Screen{Cut: true}, 60)
	if n := strings.Count(cut, " default/east-"); n != manyRows || !strings.Contains(cut, "\n60 on eth1.\n") ||
		!strings.Contains(cut, "Not shown: 20 rows.") {
		t.Errorf("%d of 60 addresses are shown:\n%s", n, cut)
	}
	for _, s := range []Screen{{}, {Wide: true}} {
		if all := text(s, planned(t, many())); strings.Count(all, "default/web-") < 60 || strings.Contains(all, "Not shown") {
			t.Errorf("%+v has not every row", s)
		}
	}
}
