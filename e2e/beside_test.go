//go:build cluster

package e2e

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// A match is a scenario with one contender.
type match struct {
	*installation
	saw []string // the remarks in the table
}

// remark adds a remark to the table.
func (m *match) remark(text string) { m.saw = append(m.saw, text) }

// twoPasses is long enough for a schedule of "* * * * *".
const twoPasses = 2*time.Minute + 10*time.Second

// passes waits for the time of two passes: not every contender reports when one ends.
func (m *match) passes() { time.Sleep(twoPasses) }

// TestBesideUpstream plays the scenarios with the product and with whereabouts' own reconciler and control loop. It
// writes the table of the documentation to IP_RECONCILE_TABLE.
func TestBesideUpstream(t *testing.T) {
	file := os.Getenv("IP_RECONCILE_TABLE")
	if file == "" {
		t.Skip("this is 45 minutes to fill a table, not a test of the product: make beside")
	}
	rows := make([][]string, len(besides))
	t.Run("match", func(t *testing.T) {
		for n, s := range besides {
			rows[n] = make([]string, len(contenders))
			for k, c := range contenders {
				if c.restores && !s.restores {
					continue
				}
				t.Run(strings.ReplaceAll(s.name, " ", "-")+"/"+c.name, func(t *testing.T) {
					t.Parallel()
					m := &match{installation: c.install(t, cmp.Or(s.schedule, "* * * * *"))}
					check(t, m.CreateNAD(t.Context(), simple("red", "10.2.0.0/24")))
					s.play(t, m)
					within(twoPasses, time.Second, func() bool { return len(m.oracle.report().Leaked) == 0 })
					saw := m.oracle.report()
					t.Log(saw)
					rows[n][k] = cell(saw, m.saw)
					if k == 0 && len(saw.Wrong)+len(saw.Leaked) > 0 {
						t.Errorf("ours: %s", saw) // the oracle adds to it when the test ends
					}
				})
			}
		}
	})
	if !t.Failed() { // else the table does not change
		writeTable(t, file, rows)
	}
}

// cell has the faults of a contender in a situation, how long its releases took, and the remarks.
func cell(saw oracleReport, remarks []string) string {
	var all []string
	for _, fault := range []struct {
		name   string
		number int
	}{{"wrongly released", len(saw.Wrong)}, {"in use twice", len(saw.Duplicates)}, {"leaked", len(saw.Leaked)}} {
		if fault.number > 0 {
			all = append(all, fmt.Sprintf("**%d %s**", fault.number, fault.name))
		}
	}
	if all == nil {
		all = []string{"no fault"}
	}
	if n := len(saw.Released); n > 0 {
		took := fmt.Sprintf("%.0f s", saw.Released[n-1].Seconds())
		if first := fmt.Sprintf("%.0f", saw.Released[0].Seconds()); n > 1 && first+" s" != took {
			took = first + "–" + took
		}
		all = append(all, "after "+took)
	}
	return strings.Join(append([]string{strings.Join(all, ", ") + "."}, remarks...), " ")
}

// writeTable puts the rows between the marks of a file.
func writeTable(t *testing.T, file string, rows [][]string) {
	const begins, ends = "<!-- the table is written by make beside -->\n", "<!-- end of the table -->\n"
	text := string(try(os.ReadFile(file)).must(t))
	from, to := strings.Index(text, begins), strings.Index(text, ends)
	if from < 0 || to < 0 {
		t.Fatalf("%s has no place for the table: it is between %q and %q", file, begins, ends)
	}
	commit := strings.TrimSpace(string(try(exec.Command("git", "rev-parse", "--short", "HEAD").Output()).must(t)))
	table := fmt.Sprintf("Played %s, commit %s.\n\n", time.Now().UTC().Format(time.DateOnly), commit) +
		"| Situation"
	for _, c := range contenders {
		table += " | " + c.name
	}
	table += " |\n" + strings.Repeat("|---", 1+len(contenders)) + "|\n"
	for n, cells := range rows {
		table += "| " + besides[n].name + " | " + strings.Join(cells, " | ") + " |\n"
	}
	check(t, os.WriteFile(file, []byte(text[:from]+begins+table+text[to:]), 0o644))
}

const upstreamImage = "e2e.invalid/whereabouts:0.9.4"

// A contender is a program that releases leaked addresses.
type contender struct {
	name string
	// restores means that it plays only the restores of etcd.
	restores bool
	// install starts a cluster of two workers with the contender, whose passes follow the schedule.
	install func(t *testing.T, schedule string) *installation
}

var contenders = []contender{
	{name: "ip-reconcile", install: func(t *testing.T, schedule string) *installation {
		return install(t, 2, "--cron="+schedule)
	}},
	{name: "ip-reconcile, no fence", restores: true, install: func(t *testing.T, schedule string) *installation {
		i := ready(t, 2)
		i.apply(t, "--cron="+schedule, "--fence-timeout=0")
		return i
	}},
	{name: "whereabouts v0.9.4", install: installUpstream},
}

// installUpstream starts a cluster with whereabouts' own ip-reconciler, and ip-control-loop on every worker, from
// whereabouts' manifests.
func installUpstream(t *testing.T, schedule string) *installation {
	t.Helper()
	i := ready(t, 2)
	i.removeCRD(t, sandboxReports)
	programs := harness.Upstream(t)
	check(t, i.cluster.ImportImage(t.Context(), upstreamImage, filepath.Join(programs, "ip-reconciler"),
		filepath.Join(programs, "ip-control-loop")))
	patches := `patches:
- target: {kind: ConfigMap, name: whereabouts-config}
  patch: |
    - {op: replace, path: /data/cron-expression, value: "%[1]s"}
- target: {kind: Deployment}
  patch: |
    - {op: replace, path: /spec/template/spec/containers/0/image, value: %[2]s}
    - {op: add, path: /spec/template/spec/containers/0/imagePullPolicy, value: Never}
    - {op: add, path: /spec/template/spec/nodeSelector, value: {kubernetes.io/hostname: worker-1}}
- target: {kind: DaemonSet}
  patch: |
    # The plugin is installed already.
    - {op: replace, path: /spec/template/spec/containers/0/command, value: [/ip-control-loop]}
    - {op: replace, path: /spec/template/spec/containers/0/args, value: [-log-level, debug]}
    - {op: replace, path: /spec/template/spec/containers/0/image, value: %[2]s}
    - {op: add, path: /spec/template/spec/containers/0/imagePullPolicy, value: Never}
`
	folder, resources := t.TempDir(), "resources:\n"
	for _, file := range []string{"daemonset-install.yaml", "reconciler-deployment.yaml"} {
		check(t, os.WriteFile(filepath.Join(folder, file), try(os.ReadFile(harness.UpstreamManifest(t, file))).must(t),
			0o600))
		resources += "- " + file + "\n"
	}
	check(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), fmt.Appendf(nil, resources+patches, schedule,
		upstreamImage), 0o600))
	i.mustKubectl(t, "apply", "-k", folder)
	i.rolledOut(t, "daemonset/whereabouts", "deployment/whereabouts-reconciler")
	return i
}

// besides are the scenarios of the table. They wait for nodes and controllers and never for a contender, which has the
// time of two passes.
var besides = []struct {
	name, schedule string // every minute, the shortest period of cron, unless set
	restores       bool   // of etcd
	play           func(t *testing.T, m *match)
}{
	{name: "A restore of etcd loses 30 pods that run on; 30 new ones start at once", restores: true,
		play: func(t *testing.T, m *match) {
			m.start(t, workload("kept", "worker-1", "blue"))
			snapshot := try(m.cluster.Snapshot()).must(t)
			m.running(t, m.create(t, "lost", "", 30)...)
			m.restored(t, snapshot, 30, func() {})
		}},
	{name: "A restore of etcd after 18 pods were rolled; 6 new ones start at once", restores: true,
		play: func(t *testing.T, m *match) {
			m.deployment(t, "web", 12, "blue")
			m.statefulSet(t, "db", 6, nil, "blue")
			m.rolled(t, "deployment/web")
			snapshot := try(m.cluster.Snapshot()).must(t)
			m.mustKubectl(t, "rollout", "restart", "deployment/web", "statefulset/db")
			m.rolled(t, "deployment/web", "statefulset/db")
			m.restored(t, snapshot, 6, func() {})
		}},
	{name: "A restore of etcd brings 6 deleted pods back; 6 new ones start at once", restores: true,
		play: func(t *testing.T, m *match) {
			past := m.running(t, m.create(t, "past", "", 6)...)
			snapshot := try(m.cluster.Snapshot()).must(t)
			for _, p := range past {
				check(t, m.DeletePod(t.Context(), p, 1))
			}
			eventuallyWithin(t, time.Minute, "the entries to go", func() bool { return len(m.contents(t)) == 0 })
			m.restored(t, snapshot, 6, func() {
				for _, p := range past {
					check(t, m.DeletePod(t.Context(), p, 0))
				}
			})
		}},
	{name: "A pod that runs on is deleted by force", play: func(t *testing.T, m *match) {
		check(t, m.cluster.Worker("worker-1").LoseDELs(true))
		p := m.start(t, stubborn("old", "worker-1", 60))
		check(t, m.DeletePod(t.Context(), p, 60))
		m.killing(t, p)
		check(t, m.DeletePod(t.Context(), p, 0))
		m.ends(t, "worker-1", p, func() { m.newcomer(t, "worker-2", p) })
	}},
	{name: "containerd stops while a pod is to end", play: func(t *testing.T, m *match) {
		worker := m.cluster.Worker("worker-2")
		check(t, worker.LoseDELs(true))
		p := m.start(t, workload("web", worker.Name, "blue"))
		check(t, worker.Stop())
		check(t, m.DeletePod(t.Context(), p, 1))
		m.passes()
		m.newcomer(t, "worker-1", p)
		m.ends(t, worker.Name, p, func() { check(t, worker.Start(t.Context())) })
	}},
	{name: "A pod has failed and runs on", play: func(t *testing.T, m *match) {
		check(t, m.cluster.Worker("worker-1").LoseDELs(true))
		p := stubborn("web", "worker-1", 60)
		p.Spec.ActiveDeadlineSeconds = ptr.To(int64(20))
		p = m.start(t, p)
		m.ends(t, "worker-1", p, func() {
			m.mustKubectl(t, "wait", "--for=jsonpath={.status.phase}=Failed", "--timeout=90s", "pod/web")
			m.newcomer(t, "worker-2", p)
		})
	}},
	{name: "A sandbox stays listed when it has ended, after its pod", play: func(t *testing.T, m *match) {
		worker, blocker := m.cluster.Worker("worker-1"), m.NewCNIBlocker()
		p := m.start(t, workload("web", worker.Name, "blue"))
		check(t, blocker.Block())
		t.Cleanup(func() { blocker.Unblock() })
		check(t, worker.HoldDELs(blocker))
		check(t, m.DeletePod(t.Context(), p, 1))
		eventually(t, "its DEL to begin", func() bool { return len(blocker.Waiting()) == 1 })
		check(t, worker.Kubelet.Freeze())
		check(t, m.DeletePod(t.Context(), p, 0))
		m.newcomer(t, "worker-2", p)
		// Longer than the oracle tolerates, and shorter than the two minutes after which containerd gives up.
		time.Sleep(2 * unexplained)
		m.ends(t, worker.Name, p, func() { check(t, blocker.Unblock()) })
	}},
	{name: "A node fails, its pods run on; then it is off, and out of service", play: func(t *testing.T, m *match) {
		worker := m.cluster.Worker("worker-2")
		p := m.start(t, evictable("web", worker.Name))
		worker.Kubelet.Kill()
		worker.Kill()
		m.terminating(t, p)
		m.passes()
		m.newcomer(t, "worker-1", p)
		worker.PowerOff()
		m.oracle.sees(t)
		m.outOfService(t, worker.Name)
		m.oracle.now()
	}},
	{name: "A node is unreachable, its pods run on", play: func(t *testing.T, m *match) {
		worker := m.cluster.Worker("worker-2")
		check(t, worker.LoseDELs(true))
		p := m.start(t, evictable("web", worker.Name))
		check(t, worker.CutOff())
		m.terminating(t, p)
		m.passes()
		m.newcomer(t, "worker-1", p)
		m.ends(t, worker.Name, p, func() { check(t, worker.Reconnect()) })
	}},
	{name: "A node is off, then on again", play: func(t *testing.T, m *match) {
		worker := m.cluster.Worker("worker-2")
		check(t, worker.LoseDELs(true))
		back, lost := m.start(t, workload("back", worker.Name, "blue")), m.start(t, workload("lost", worker.Name, "blue"))
		before := m.sandbox(t, back)
		worker.PowerOff()
		m.mustKubectl(t, "wait", "--for=condition=Ready=Unknown", "--timeout=60s", "node/"+worker.Name)
		check(t, m.DeletePod(t.Context(), lost, 0))
		m.passes()
		if podOf(try(m.entries(t.Context())).must(t)[addressOn(t, lost, "net1")]) != "default/lost" {
			m.remark("Released before the node was on again.")
		}
		m.oracle.now()
		check(t, worker.Boot(t.Context()))
		eventuallyWithin(t, time.Minute, "the other pod to be back", func() bool {
			id, err := worker.SandboxOf(t.Context(), string(back.UID))
			return err == nil && id != before
		})
	}},
	{name: "Sixty pods of two networks are rolled three times", schedule: "@every 1s", play: func(t *testing.T, m *match) {
		check(t, m.cluster.Worker("worker-2").LoseDELs(true))
		m.rolls(t, func() {})
	}},
}

// restored restores etcd while new pods are created, and waits until they run and two passes were made.
func (m *match) restored(t *testing.T, snapshot string, newcomers int, atOnce func()) {
	t.Helper()
	var names []string
	done := m.restores(t, snapshot, func() {
		atOnce()
		names = m.create(t, "newcomer", "", newcomers)
	})
	began := time.Now()
	m.runningWithin(t, 5*time.Minute, names...)
	m.remark(fmt.Sprintf("The new ones ran after %.0f s.", time.Since(began).Seconds()))
	done()
	m.oracle.now()
	m.passes()
}

// ends acts, and then waits until nobody on a worker has the pod's address.
func (m *match) ends(t *testing.T, worker string, p *corev1.Pod, done func()) {
	t.Helper()
	done()
	address := addressOn(t, p, "net1")
	eventuallyWithin(t, 3*time.Minute, p.Name+" to end", func() bool {
		return !m.cluster.Worker(worker).Answers(t, address)
	})
}

// newcomer starts a pod, which may get the address that another one has.
func (m *match) newcomer(t *testing.T, worker string, other *corev1.Pod) {
	t.Helper()
	p := m.start(t, workload("newcomer", worker, "blue"))
	if addressOn(t, p, "net1") == addressOn(t, other, "net1") {
		m.remark("The next pod gets the address.")
	}
	m.oracle.sees(t)
}

// evictable is a pod that is evicted as soon as its node is unreachable.
func evictable(name, worker string) *corev1.Pod {
	p := workload(name, worker, "blue")
	for _, key := range []string{corev1.TaintNodeUnreachable, corev1.TaintNodeNotReady} {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: ptr.To(int64(1)),
		})
	}
	return p
}

// terminating waits until the controllers have evicted a pod.
func (m *match) terminating(t *testing.T, p *corev1.Pod) {
	t.Helper()
	eventuallyWithin(t, 2*time.Minute, p.Name+" to be terminating", func() bool {
		now, err := m.Client().CoreV1().Pods(p.Namespace).Get(t.Context(), p.Name, metav1.GetOptions{})
		return err == nil && now.DeletionTimestamp != nil
	})
}
