package reconciler

import (
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// A cloned machine, or one agent that lies, has the ids of sandboxes that run
// elsewhere.
func TestOneNodeDoesNotSpeakForAnother(t *testing.T) {
	held, proven := resOutcome{judge.Held, judge.SandboxNotReady, false}, resOutcome{judge.Stale, judge.PodGone, true}
	nodes := all(aNode("worker-1"), aNode("worker-2"))
	rebooted := all(aNode("worker-1", booted("boot-2")), aNode("worker-2"))
	ends := map[string]part{
		"stopped on one":                     all(nodes, freshReport("worker-1", box("box-1", its1, notReady(closed)))),
		"gone on one":                        all(nodes, freshReport("worker-1", gone("box-1", its1))),
		"on one, before it was booted again": all(rebooted, staleReport("worker-1", box("box-1", its1))),
	}
	has := map[string]part{
		"running, by an old report":             staleReport("worker-2", box("box-1", its1)),
		"not ready, by an old report":           staleReport("worker-2", box("box-1", its1, notReady(nil))),
		"attached, by an old report":            staleReport("worker-2", attachment("box-1", its1, time.Minute, nil)),
		"running, by a report never vouched":    staleReport("worker-2", box("box-1", its1), unvouched),
		"running for another, by an old report": staleReport("worker-2", box("box-1", others)),
	}
	for end, first := range ends {
		for other, second := range has {
			t.Run(end+", and on another "+other, func(t *testing.T) {
				expectKept(t, usualPool, first, second)
				if !strings.Contains(end, "booted") { // there the other node is simply not heard
					expectVerdict(t, held, usualPool, first, second)
				}
			})
			t.Run(end+", and on another "+other+", while its pod ends", func(t *testing.T) {
				expectKept(t, usualPool, first, second, web(deletedAgo(0)))
			})
		}
	}
	t.Run("stopped on one, and the other is proven dead", func(t *testing.T) {
		expectVerdict(t, proven, usualPool, aNode("worker-1"), freshReport("worker-1", box("box-1", its1, notReady(closed))),
			aNode("worker-2", notReadyFor(time.Hour), outOfService), staleReport("worker-2", box("box-1", its1)))
	})
	gones := all(usualPool, aNode("worker-1"), freshReport("worker-1", gone("box-1", its1)))
	t.Run("gone on one, and the other is missing since a moment", func(t *testing.T) {
		expectVerdict(t, held, gones, reportFrom("worker-2", time.Minute+time.Second, box("box-1", its1)))
	})
	t.Run("gone on one, and the other is missing for two hours", func(t *testing.T) {
		missing := staleReport("worker-2", box("box-1", its1), heardAt(now.Add(-3*time.Hour)))
		expectVerdict(t, resOutcome{judge.Stale, judge.PodGone, false}, gones, missing, seenEvery(2*time.Hour, gones, missing))
	})
}

// The pod of the entry is bound to worker-2, and what is known of the sandbox is
// worker-1's word.
func TestOneNodeDoesNotSpeakForThePodOfAnother(t *testing.T) {
	says := map[string]part{
		"stopped":     all(aNode("worker-1"), freshReport("worker-1", box("box-1", others, notReady(closed)))),
		"gone":        all(aNode("worker-1"), freshReport("worker-1", gone("box-1", others))),
		"gone, its":   all(aNode("worker-1"), freshReport("worker-1", gone("box-1", its1))),
		"another one": all(aNode("worker-1", booted("boot-2")), staleReport("worker-1", box("box-1", its1))),
	}
	pods := map[string]part{
		"Pending":     web(onNode("worker-2"), phaseIs("Pending")),
		"live":        web(onNode("worker-2")),
		"terminating": web(onNode("worker-2"), deletedAgo(0)),
	}
	for word, first := range says {
		for phase, pod := range pods {
			t.Run(word+", and the node of the pod, which is "+phase+", is not heard", func(t *testing.T) {
				expectKept(t, usualPool, first, pod, aNode("worker-2"))
				expectKept(t, usualPool, first, pod, aNode("worker-2"), staleReport("worker-2"))
			})
			t.Run(word+", and the node of the pod, which is "+phase+", is heard", func(t *testing.T) {
				it := allocation(t, judged(observe(usualPool, first, pod, aNode("worker-2"), freshReport("worker-2")), judge.Policy{}), "10.0.0.5")
				if it.Proven {
					t.Errorf("%v\nit says: %s", outcomeOf(it), it.Message())
				}
			})
		}
	}
	t.Run("a pod that kubelet has stopped is no reason to ask its node", func(t *testing.T) {
		expectVerdict(t, resOutcome{judge.Stale, judge.PodFinished, true}, usualPool, says["gone, its"], aNode("worker-2"), freshReport("worker-2"),
			web(onNode("worker-2"), phaseIs("Succeeded"), stoppedByKubelet(time.Hour)))
	})
	// Whoever says that a pod failed, the node that it is bound to may run it.
	t.Run("a pod that failed by another word than kubelet's is bound to its node all the same", func(t *testing.T) {
		for _, first := range says {
			expectKept(t, usualPool, first, web(onNode("worker-2"), phaseIs("Failed")), aNode("worker-2"))
		}
	})
}

// Kubelet's word that the containers stopped is about the pod on its node, at
// the time at which they did.
func TestFinishedAndUnheardRestsOnKubeletsWordForThePodsOwnNodeOnly(t *testing.T) {
	held, freed := resOutcome{judge.Held, judge.NoFreshReportReason, false}, resOutcome{judge.Stale, judge.PodFinished, false}
	ended := func(ago time.Duration) part { return web(phaseIs("Succeeded"), stoppedByKubelet(ago)) }
	one, two := aNode("worker-1"), aNode("worker-2")
	for _, c := range []struct {
		says  string
		want  resOutcome
		parts []part
	}{
		{"its own node is not heard, and the containers stopped since", freed, []part{ended(time.Minute), one, staleReport("worker-1", box("box-1", its1))}},
		{"it is another node that had the sandbox", held, []part{ended(time.Minute), one, two, freshReport("worker-1"), staleReport("worker-2", box("box-1", its1))}},
		{"a clone had it too", held, []part{ended(time.Minute), one, two, staleReport("worker-1", box("box-1", its1)), staleReport("worker-2", box("box-1", its1))}},
		{"no report has it, and another node is not heard either", held, []part{ended(time.Minute), one, two, staleReport("worker-1"), staleReport("worker-2")}},
		{"no report has it, and only another node is not heard", held, []part{ended(time.Minute), one, two, freshReport("worker-1"), staleReport("worker-2")}},
		{"no report has it, and only its own node is not heard", freed, []part{ended(time.Minute), one, two, staleReport("worker-1"), freshReport("worker-2")}},
		{"its sandbox ran after the containers stopped", held, []part{ended(time.Hour), one, staleReport("worker-1", box("box-1", its1))}},
		{"its sandbox was not ready after the containers stopped", held, []part{ended(time.Hour), one, staleReport("worker-1", box("box-1", its1, notReady(nil)))}},
		{"its sandbox was not ready and open after the containers stopped", held, []part{ended(time.Hour), one, staleReport("worker-1", box("box-1", its1, notReady(open)))}},
		{"its sandbox was attached after the containers stopped", held, []part{ended(time.Hour), one, staleReport("worker-1", attachment("box-1", its1, time.Minute, nil))}},
		{"its sandbox was stopped after the containers did", freed, []part{ended(time.Hour), one, staleReport("worker-1", box("box-1", its1, notReady(closed)))}},
		{"its sandbox was not ready before the containers stopped", freed, []part{ended(time.Minute), one, staleReport("worker-1", box("box-1", its1, notReady(nil)))}},
		{"the report did not change since, and was vouched for after the containers stopped", held,
			[]part{ended(time.Hour), one, staleReport("worker-1", box("box-1", its1), observedAgo(2*time.Hour))}},
		{"the report was vouched for before the containers stopped, by whatever clock it was observed", freed,
			[]part{ended(time.Minute), one, staleReport("worker-1", box("box-1", its1), observedAgo(-time.Hour))}},
		{"the sandbox was another pod's", held, []part{ended(time.Minute), one, staleReport("worker-1", box("box-1", others))}},
	} {
		t.Run(c.says, func(t *testing.T) { expectVerdict(t, c.want, append([]part{usualPool}, c.parts...)...) })
	}
}
