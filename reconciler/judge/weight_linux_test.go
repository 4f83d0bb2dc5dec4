package judge_test

import (
	"fmt"
	"math"
	"net/netip"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// processorTime is the least time of the processor that work took: what else runs on the machine does not count.
func processorTime(t testing.TB, prepare func() func()) time.Duration {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	best := time.Duration(math.MaxInt64)
	for range 3 {
		work := prepare()
		runtime.GC()
		percent := debug.SetGCPercent(-1)
		before := threadTime(t)
		work()
		best = min(best, threadTime(t)-before)
		debug.SetGCPercent(percent)
	}
	return best
}

func threadTime(t testing.TB) time.Duration {
	t.Helper()
	var now unix.Timespec
	check(t, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now))
	return time.Duration(now.Nano())
}

// hostile is an observation with n times something that somebody has written who wants it to take long.
type hostile struct {
	says string
	make func(n int) *Observed
}

const liar = "liar"

// lying is an observation of a pool with all of its addresses taken, and the reports of a
// node that the sandboxes are in.
func lying(n int, sandbox func(i int, b *v1alpha1.Sandbox), parts ...Part) *Observed {
	entries := make([]Allocation, max(n, 100))
	for i := range entries {
		entries[i] = Alloc(fmt.Sprint(i), fmt.Sprintf("default/p-%d", i), fmt.Sprint("box-", i), "net1")
	}
	report := func(r *podstate.Report) {
		for i := range n {
			b := v1alpha1.Sandbox{ID: fmt.Sprint("lie-", i), Namespace: "default", Name: "lie", UID: fmt.Sprint("uid-", i),
				State: "Ready"}
			sandbox(i, &b)
			r.Sandboxes = append(r.Sandboxes, b)
		}
	}
	return Observe(append([]Part{Node("worker-1"), Node(liar), FreshReport("worker-1"), FreshReport(liar, report),
		Pool("10.0.0.0-16", "10.0.0.0/16", entries...), NAD("wb", WhereaboutsConfig("10.0.0.0/16", ""))}, parts...)...)
}

func addressAt(i int) string { return fmt.Sprintf("10.0.%d.%d", i>>8&255, i&255) }

// carriers are n pods of the liar that carry the same 64 addresses.
func carriers(n int) Part {
	addresses := make([]string, 64)
	for i := range addresses {
		addresses[i] = fmt.Sprintf("%q", addressAt(i))
	}
	status := fmt.Sprintf(`[%s{"name":"default/wb","interface":"net1","ips":[%s]}]`, strings.Repeat("{},", 80_000),
		strings.Join(addresses, ","))
	return func(o *Observed) {
		Pod("carrier", OnNode(liar), NetworkStatus(status))(o)
		one := o.Pods[types.NamespacedName{Namespace: "default", Name: "carrier"}]
		for i := range n {
			p := *one
			p.Name, p.UID = fmt.Sprint("carrier-", i), fmt.Sprint("carrier-uid-", i)
			p.RuntimeUID = p.UID
			o.Pods[p.NamespacedName] = &p
		}
	}
}

// sharers are n pods of the liar with one address, which the sandboxes "same-" have, too.
func sharers(n int) Part {
	return func(o *Observed) {
		for i := range n {
			Pod(fmt.Sprint("same-", i), UID(fmt.Sprint("uid-", i)), OnNode(liar), Carrying("10.0.0.5"))(o)
		}
	}
}

func unreadLie(_ int, b *v1alpha1.Sandbox) {
	b.Name, b.UID, b.AddressesUnread = "web-0", UsualUID, true
}

func hostiles() []hostile {
	at := func(b *v1alpha1.Sandbox, ips ...string) {
		for _, ip := range ips {
			b.Addresses = append(b.Addresses, Address(ip, ""))
		}
	}
	return []hostile{
		{"sandboxes that carry one address", func(n int) *Observed {
			return lying(n, func(i int, b *v1alpha1.Sandbox) { at(b, slices.Repeat([]string{"10.0.0.5"}, 20)...) })
		}},
		{"sandboxes that carry every address", func(n int) *Observed {
			return lying(n, func(i int, b *v1alpha1.Sandbox) {
				for k := range 16 {
					at(b, addressAt(16*i+k))
				}
			})
		}},
		{"sandboxes of one id", func(n int) *Observed {
			return lying(n, func(i int, b *v1alpha1.Sandbox) { b.ID = "box-5"; at(b, addressAt(i)) })
		}},
		{"sandboxes that are gone", func(n int) *Observed {
			o := lying(0, nil)
			for i := range n {
				Gone(fmt.Sprint("box-", i%1000), "uid")(ReportOf(o, liar))
			}
			return o
		}},
		{"sandboxes whose addresses are unread", func(n int) *Observed {
			return lying(n, unreadLie, NAD("other", WhereaboutsConfig("192.168.0.0/16", "other")),
				Pod("web-0", OnNode(liar), NetworkStatus(`[{"name":"default/other","interface":"net1"}]`)))
		}},
		{"ranges that unread sandboxes may carry", func(n int) *Observed {
			return lying(n, func(i int, b *v1alpha1.Sandbox) {
				b.AddressesUnread = true
				for k := range 8 {
					b.MayCarry = append(b.MayCarry, v1alpha1.Network{Range: fmt.Sprintf("172.%d.%d.%d/32", i>>8, i&255, k)})
				}
			})
		}},
		{"pods and their sandboxes that carry one address", func(n int) *Observed {
			return lying(n, func(i int, b *v1alpha1.Sandbox) { b.Name = fmt.Sprint("same-", i); at(b, "10.0.0.5") }, sharers(n))
		}},
		{"pods that carry the same addresses", func(n int) *Observed {
			return lying(n, func(i int, b *v1alpha1.Sandbox) { at(b, addressAt(i)) }, carriers(n/10))
		}},
		{"allocations of one pool", func(n int) *Observed {
			entries := map[string]any{}
			for i := range n {
				entries[fmt.Sprint(i)] = map[string]any{"id": "box-5", "podref": "default/web-0", "ifname": "net1"}
			}
			return lying(100, func(_ int, b *v1alpha1.Sandbox) { b.ID = "box-5" },
				RawPool("big", map[string]any{"range": "10.8.0.0/13", "allocations": entries}))
		}},
		{"definitions of slices", func(n int) *Observed {
			return lying(10, unreadLie, func(o *Observed) {
				for i := range n / 4 {
					NAD(fmt.Sprint("nad-", i), WhereaboutsConfig(fmt.Sprintf("10.%d.0.0/16", i%200), fmt.Sprint("net-", i),
						`"node_slice_size":"/24"`))(o)
				}
			})
		}},
	}
}

// linear is how much longer four times as much may take: what is linear takes four times as long, and a bit more where
// it no longer fits into the processor's cache; what is quadratic takes sixteen times as long.
const linear = 9

// unmeasured is added to what is divided by: less than that is soon twice as much.
const unmeasured = 2 * time.Millisecond

// skipShort leaves out with -short what measures time, which takes seconds.
func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it measures time, and runs without -short")
	}
}

func grows(t *testing.T, small, large time.Duration) {
	t.Helper()
	t.Logf("%s for 1000, %s for 4000", small, large)
	if large > linear*(small+unmeasured) {
		t.Error("it grows faster than what it is about")
	}
}

func TestJudgingFourTimesAsManyLiesTakesFourTimesAsLong(t *testing.T) {
	skipShort(t)
	for _, h := range hostiles() {
		t.Run(h.says, func(t *testing.T) {
			judged := func(n int) time.Duration {
				o := h.make(n)
				return processorTime(t, func() func() { return func() { Judged(o, facts.Policy{}) } })
			}
			grows(t, judged(1000), judged(4000))
		})
	}
}

// secondCheck is what is done under whereabouts' Lease when a live read has found the pool and a
// pod changed: 100 candidates are judged again, and their findings.
func secondCheck(tb testing.TB, h hostile, n int) time.Duration {
	o := h.make(n)
	var addresses []netip.Addr
	for i := range 100 {
		addresses = append(addresses, netip.MustParseAddr(addressAt(i)))
	}
	return processorTime(tb, func() func() {
		f := facts.New(o.Observation, nil, facts.Policy{})
		return func() {
			f = f.With(&facts.Live{Now: o.Now, Pods: map[types.NamespacedName]*podstate.Pod{PodName("p-5"): nil},
				Pools: map[types.NamespacedName]*ippool.Pool{
					{Namespace: "kube-system", Name: o.Pools[0].Name}: o.Pools[0]}})
			findings.At(judge.JudgeAt(f, nil, nil, addresses), addresses, addresses)
		}
	})
}

func TestASecondCheckOfFourTimesAsManyLiesTakesFourTimesAsLong(t *testing.T) {
	skipShort(t)
	for _, h := range hostiles() {
		t.Run(h.says, func(t *testing.T) {
			grows(t, secondCheck(t, h, 1000), secondCheck(t, h, 4000))
		})
	}
}

// What a pass takes for a lie stays within a multiple of the lie's own length.
func TestAReportTakesNoMoreMemoryThanAMultipleOfItsLength(t *testing.T) {
	for _, h := range hostiles() {
		small := h.make(500)
		large := h.make(2000)
		a, _ := allocated(func() { Judged(small, facts.Policy{}) })
		b, _ := allocated(func() { Judged(large, facts.Policy{}) })
		if b > 5*a+1<<20 {
			t.Errorf("%s: %d bytes for 500, %d for 2000", h.says, a, b)
		}
	}
}
