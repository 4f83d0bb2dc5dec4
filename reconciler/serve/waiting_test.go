package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore/restoretest"
)

// waitingRecorder records the Events on waiting pods as "<pod> <pool>: <message>".
type waitingRecorder struct {
	record.EventRecorder
	events []string
}

func (w *waitingRecorder) AnnotatedEventf(o runtime.Object, notes map[string]string, kind, reason, form string,
	args ...any,
) {
	on := o.(*corev1.ObjectReference)
	if kind != corev1.EventTypeWarning || reason != "IPPoolFull" || on.Kind != "Pod" || on.UID == "" {
		panic(fmt.Sprint(kind, reason, on))
	}
	w.events = append(w.events,
		fmt.Sprintf("%s/%s %s: ", on.Namespace, on.Name, notes[poolAnnotation])+fmt.Sprintf(form, args...))
}

// asking is a Pending pod that has asked for an address of default/a for so long.
func asking(name string, since time.Duration) Part { return askingFor("a", name, since) }

func askingFor(network, name string, since time.Duration) Part {
	return Pod(name, Phase("Pending"), func(p *corev1.Pod) {
		p.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": network}
		p.CreationTimestamp = metav1.NewTime(Now.Add(-since))
	})
}

func TestPoolFull_SaysWhetherWaitingHelps(t *testing.T) {
	define := NAD("a", WhereaboutsConfig("10.0.0.0/30", ""))
	pool := func(podRefs ...string) Part {
		var all []Allocation
		for i, ref := range podRefs {
			all = append(all, Alloc(fmt.Sprint(i+1), ref, fmt.Sprint("box-", i), "net1"))
		}
		return Pool("10.0.0.0-30", "10.0.0.0/30", all...)
	}
	first := Pod("web-1", Carrying("10.0.0.1"))
	live := All(first, Pod("web-2", Carrying("10.0.0.2")))
	at := func(m int) plan.Gate {
		return plan.Gate{Why: plan.AwaitingConfirmation, At: Now.Add(time.Duration(m) * time.Minute)}
	}
	paused := plan.Gate{Why: plan.Paused}
	for _, c := range []struct {
		says, want string
		gates      [][]plan.Gate // of the Stale items; none for a released one
		parts      []Part
	}{
		{"nothing is stale", "nothing is stale: widen the range", nil,
			[]Part{live, pool("default/web-1", "default/web-2"), asking("p", time.Minute)}},
		{"one is held", "nothing is stale, 1 held ('ip-reconcile check --pool kube-system/10.0.0.0-30' shows why): " +
			"widen the range", nil, []Part{live, pool("default/web-1", "no podref"), asking("p", time.Minute)}},
		{"two are stale", "2 addresses are stale, the next is released at 10:04:00 UTC if every pass agrees",
			[][]plan.Gate{{at(9)}, {at(4)}}, []Part{pool("default/x", "default/y"), asking("p", time.Minute)}},
		{"one is stale for days", "1 address is stale, the next is released at 2026-11-22 10:00:00 UTC if every pass agrees",
			[][]plan.Gate{{at(48 * 60)}}, []Part{first, pool("default/web-1", "default/x"), asking("p", time.Minute)}},
		{"one is stale and awaits nothing that ends by itself", "1 address is stale and not released: Paused",
			[][]plan.Gate{{at(9), paused}}, []Part{first, pool("default/web-1", "default/x"), asking("p", time.Minute)}},
		{"one of two is paused", "2 addresses are stale, the next is released at 10:09:00 UTC if every pass agrees",
			[][]plan.Gate{{at(9)}, {at(4), paused}}, []Part{pool("default/x", "default/y"), asking("p", time.Minute)}},
		{"its write failed in an earlier pass", "1 address is stale", [][]plan.Gate{nil},
			[]Part{first, pool("default/web-1", "default/x"), asking("p", time.Minute)}},
		{"the pass has released one", "", [][]plan.Gate{{}},
			[]Part{first, pool("default/web-1", "default/x"), asking("p", time.Minute)}},
		{"an address is free", "", nil, []Part{live, pool("default/web-1"), asking("p", time.Minute)}},
		{"the pod is young", "", nil, []Part{live, pool("default/web-1", "default/web-2"), asking("p", 29*time.Second)}},
	} {
		t.Run(c.says, func(t *testing.T) {
			out := resultOf(append(c.parts, define)...)
			stale := out.StaleItems()
			if len(stale) != len(c.gates) {
				t.Fatalf("%d stale items, want %d", len(stale), len(c.gates))
			}
			for i, gates := range c.gates {
				switch {
				case len(gates) > 0:
					out.Refused = append(out.Refused, plan.Refused{Item: stale[i], Gate: gates[0], Also: gates[1:]})
				case gates != nil:
					out.Released = append(out.Released, stale[i])
				}
			}
			events, recorder := &waitingRecorder{}, newRecorder(&strings.Builder{})
			recorder.Events.Waiting = events
			recorder.record(out)
			var want []string
			if c.want != "" {
				want = []string{"default/p kube-system/10.0.0.0-30: Pool 10.0.0.0/30 is full: " + c.want}
			}
			if !slices.Equal(events.events, want) {
				t.Errorf("Events:\n%q, want\n%q", events.events, want)
			}
		})
	}
}

func TestPoolFull_AtMostSoManyPods(t *testing.T) {
	parts := []Part{NAD("a", WhereaboutsConfig("10.0.0.0/30", "")), Pod("web-1", Carrying("10.0.0.1")),
		Pod("web-2", Carrying("10.0.0.2")), Pool("10.0.0.0-30", "10.0.0.0/30",
			Alloc("1", "default/web-1", "box-1", "net1"), Alloc("2", "default/web-2", "box-2", "net1"))}
	for i := range maxWaitingPods + 7 {
		parts = append(parts, asking(fmt.Sprintf("p-%03d", i), time.Minute))
	}
	var log strings.Builder
	events, recorder := &waitingRecorder{}, newRecorder(&log)
	recorder.Events.Waiting = events
	recorder.record(resultOf(parts...))
	recorder.record(resultOf(parts...))
	if n := len(events.events); n != 2*maxWaitingPods || !strings.HasPrefix(events.events[99], "default/p-099 ") {
		t.Errorf("%d Events, the last of the first pass is %q", n, events.events[99])
	}
	restoretest.Equal(t, "lines of the log", strings.Count(log.String(), "waiting=107 withEvent=100"), 1)
}

func TestWaitingEvents_OneOfAPodAndPool(t *testing.T) {
	client := fake.NewClientset()
	process := func() *waitingEvents {
		return &waitingEvents{api: client.CoreV1(), log: slog.New(slog.DiscardHandler),
			written: map[string]*applycorev1.EventApplyConfiguration{}}
	}
	event := func(uid, pool, message string, after time.Duration) *corev1.Event {
		at := metav1.NewTime(Now.Add(after))
		return &corev1.Event{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{poolAnnotation: pool}},
			InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: "web",
				UID: types.UID(uid)}, Type: corev1.EventTypeWarning, Reason: reasonPoolFull, Message: message,
			FirstTimestamp: at, LastTimestamp: at, Count: 1}
	}
	one := process()
	for _, c := range []struct {
		says, want string // the Events by message, first and last second, and count
		by         *waitingEvents
		event      *corev1.Event
	}{
		{"the first", "a 0 0 1", one, event("1", "x/a", "a", 0)},
		{"within a minute", "a 0 0 1", one, event("1", "x/a", "b", 59*time.Second)},
		{"after a minute", "c 0 60 2", one, event("1", "x/a", "c", time.Minute)},
		{"a minute after that", "c 0 120 3", one, event("1", "x/a", "c", 2*time.Minute)},
		{"the leader changed", "d 125 125 1", process(), event("1", "x/a", "d", 125*time.Second)},
		{"another pool", "d 125 125 1, e 126 126 1", one, event("1", "x/b", "e", 126*time.Second)},
		{"another pod of that name", "d 125 125 1, e 126 126 1, f 127 127 1", one, event("2", "x/a", "f", 127*time.Second)},
	} {
		c.by.write(t.Context(), c.event)
		list, err := client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
		check(t, err)
		var got []string
		for _, e := range list.Items {
			got = append(got, fmt.Sprint(e.Message, " ", e.FirstTimestamp.Sub(Now).Seconds(), " ",
				e.LastTimestamp.Sub(Now).Seconds(), " ", e.Count))
			if e.InvolvedObject.Name != "web" || e.Source.Component != "ip-reconcile" || e.Type != "Warning" {
				t.Errorf("%s: %+v", c.says, e)
			}
		}
		slices.Sort(got)
		restoretest.Equal(t, c.says, strings.Join(got, ", "), c.want)
	}
}

func TestWaitingEvents_LogsOnceThatTheyAreForbidden(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("patch", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(corev1.Resource("events"), "", errors.New("no"))
	})
	var log strings.Builder
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	recorder := NewWaitingRecorder(ctx, client.CoreV1(), slog.New(slog.NewTextHandler(&log, nil)))
	patches := func() (n int) {
		for _, a := range client.Actions() {
			if a.GetVerb() == "patch" {
				n++
			}
		}
		return n
	}
	write := func(name string) {
		t.Helper()
		before := patches()
		recorder.AnnotatedEventf(&corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: name},
			map[string]string{poolAnnotation: "x/a"}, corev1.EventTypeWarning, reasonPoolFull, "full")
		for end := time.Now().Add(10 * time.Second); patches() == before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("no Event on %s is written", name)
			}
		}
	}
	write("web-1")
	write("web-2")
	write("web-3") // web-2 is done
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "forbidden") {
		t.Errorf("logged: %s", log.String())
	}
}

// The pools share the Events of a pass: many pods that wait for one do not silence those that wait for another.
func TestPoolFull_TakesPodsOfEachPoolInTurn(t *testing.T) {
	parts := []Part{Pod("web-1", Carrying("10.0.0.1")), Pod("web-2", Carrying("10.0.1.1"))}
	for i, c := range []struct {
		name    string
		waiting int
	}{{"a", maxWaitingPods}, {"b", 3}} {
		cidr := fmt.Sprintf("10.0.%d.0/31", i)
		parts = append(parts, NAD(c.name, WhereaboutsConfig(cidr, "")), Pool(strings.ReplaceAll(cidr, "/", "-"), cidr,
			Alloc("0", "no podref", "box-0", "net1"), Alloc("1", fmt.Sprint("default/web-", i+1), "box-1", "net1")))
		for n := range c.waiting {
			parts = append(parts, askingFor(c.name, fmt.Sprintf("%s-%03d", c.name, n), time.Minute))
		}
	}
	events, recorder := &waitingRecorder{}, newRecorder(&strings.Builder{})
	recorder.Events.Waiting = events
	recorder.record(resultOf(parts...))
	n := strings.Count(strings.Join(events.events, "\n"), "default/b-")
	if len(events.events) != maxWaitingPods || n != 3 {
		t.Errorf("%d Events, %d of pods that wait for b", len(events.events), n)
	}
}
