//go:build cluster

package e2e

import (
	"testing"
	"time"
)

// Pods are made from the first second on after a restore: no controller waits until the
// pools are right. The oracle fails a test in which an address is on the wire twice.
func TestNoPodGetsAPhantomsAddressAfterARestore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		pods  int
		flags []string
		ends  bool // kubelets end the phantoms: their watches are too old, and they list
	}{
		{"whose revisions run backwards", 30, nil, false},
		{"whose revisions were bumped", 12, []string{"--bump-revision=1000000", "--mark-compacted"}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := install(t, 2)
			check(t, i.CreateNAD(t.Context(), blue))
			kept := i.start(t, workload("kept", "worker-1", "blue"))
			i.leader(t)
			snapshot := try(i.cluster.Snapshot()).must(t)
			phantoms := i.running(t, i.create(t, "phantom", "", c.pods)...)
			i.waitReported(t, phantoms...)

			var names []string
			done := i.restores(t, snapshot, func() { names = i.create(t, "newcomer", "", c.pods) }, c.flags...)
			began := time.Now()
			newcomers := i.runningWithin(t, 4*time.Minute, names...)
			t.Logf("%d newcomers ran after %.1fs", c.pods, time.Since(began).Seconds())
			if done().fenced.IsZero() {
				t.Error("there was no fence")
			}
			running := append(newcomers, kept)
			if c.ends {
				eventuallyWithin(t, 2*time.Minute, "the phantoms' entries to go", func() bool { return len(i.contents(t)) == 2*len(running) })
			} else {
				running = append(running, phantoms...)
			}
			i.apart(t, running...)
		})
	}
}

func TestPodsOfThePastDoNotGetAddressesOfPodsThatRunAfterARestore(t *testing.T) {
	t.Parallel()
	for name, restarted := range map[string]bool{"and kubelets run on": false, "and kubelets start again": true} {
		t.Run(name, func(t *testing.T) {
			i := install(t, 2)
			check(t, i.CreateNAD(t.Context(), blue))
			i.deployment(t, "web", 12, "blue")
			i.statefulSet(t, "db", 6, nil, "blue")
			i.mustKubectl(t, "rollout", "status", "--timeout=180s", "deployment/web")
			i.leader(t)
			snapshot := try(i.cluster.Snapshot()).must(t)
			i.mustKubectl(t, "rollout", "restart", "deployment/web", "statefulset/db")
			for _, what := range []string{"deployment/web", "statefulset/db"} {
				i.mustKubectl(t, "rollout", "status", "--timeout=300s", what)
			}
			var names []string
			done := i.restores(t, snapshot, func() {
				names = i.create(t, "newcomer", "", 6)
				if restarted {
					for _, w := range i.cluster.Workers {
						w.Kubelet.Kill()
						check(t, w.StartKubelet())
					}
				}
			})
			newcomers := i.runningWithin(t, 4*time.Minute, names...)
			if done().fenced.IsZero() {
				t.Error("there was no fence")
			}
			if restarted {
				for _, what := range []string{"deployment/web", "statefulset/db"} {
					i.mustKubectl(t, "rollout", "status", "--timeout=300s", what)
				}
			}
			i.apart(t, newcomers...)
			i.oracle.sees(t)
		})
	}
}

// The entries of pods that were deleted after the backup come back with it.
func TestTheAddressesOfPodsOfThePastAreFreedAfterARestore(t *testing.T) {
	t.Parallel()
	i := install(t, 2)
	check(t, i.CreateNAD(t.Context(), blue))
	i.start(t, workload("kept", "worker-1", "blue"))
	past := i.running(t, i.create(t, "past", "", 6)...)
	i.leader(t)
	snapshot := try(i.cluster.Snapshot()).must(t)
	for _, p := range past {
		check(t, i.DeletePod(t.Context(), p, 1))
	}
	eventuallyWithin(t, time.Minute, "the entries to go", func() bool { return len(i.contents(t)) == 2 })
	var names []string
	done := i.restores(t, snapshot, func() {
		for _, p := range past {
			check(t, i.DeletePod(t.Context(), p, 0))
		}
		names = i.create(t, "newcomer", "", 6)
	})
	newcomers := i.runningWithin(t, 4*time.Minute, names...)
	if done().fenced.IsZero() {
		t.Error("there was no fence")
	}
	i.apart(t, newcomers...)
	eventuallyWithin(t, 2*time.Minute, "the entries of the past to go", func() bool { return len(i.contents(t)) == 2*(1+len(newcomers)) })
}

// The lost node says nothing, so that the fence stands for as long as it may.
func TestTheOtherReplicaFencesWhenARestoreCostsTheLeadersNode(t *testing.T) {
	t.Parallel()
	const pods = 12
	i := install(t, 2)
	check(t, i.CreateNAD(t.Context(), blue))
	lost, other := i.cluster.Worker(i.leader(t).node), i.cluster.Workers[0]
	if other == lost {
		other = i.cluster.Workers[1]
	}
	i.start(t, workload("lost", lost.Name, "blue"))
	snapshot := try(i.cluster.Snapshot()).must(t)
	phantoms := i.running(t, i.create(t, "phantom", other.Name, pods)...)
	i.waitReported(t, phantoms...)

	lost.PowerOff()
	var names []string
	done := i.restores(t, snapshot, func() { names = i.create(t, "newcomer", other.Name, pods) })
	newcomers := i.runningWithin(t, 5*time.Minute, names...)
	if done().fenced.IsZero() {
		t.Error("there was no fence")
	}
	i.apart(t, append(newcomers, phantoms...)...)
	equal(t, "the entry of the pod on the lost node is there", i.contents(t)["10.1.0.0-24 1"] != "", true)
}
