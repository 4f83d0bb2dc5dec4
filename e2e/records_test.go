//go:build !slow && !cluster

package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	docs "github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/reconciler/audit"
)

// recorded is what history prints, which must have no fault.
func (s *stage) recorded(t testing.TB, args ...string) []audit.Record {
	t.Helper()
	out := s.product(t, append([]string{"history", "--verify"}, args...)...)
	out.exits(t, 0)
	var d docs.HistoryReport
	check(t, json.Unmarshal([]byte(out.stdout), &d))
	return d.Records
}

// inShort are records as "<what> <ip or pool> <podRef>".
func inShort(all []audit.Record) (texts []string) {
	for _, r := range all {
		where := r.IP
		if where == "" {
			where = r.Pool
		}
		texts = append(texts, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.What, where, r.PodRef)))
	}
	return texts
}

// planted adds an entry of a deleted pod.
func (s *stage) planted(t testing.TB, pool string, key int) {
	t.Helper()
	s.patch(t, harness.IPPools, pool, fmt.Sprintf(
		`{"spec":{"allocations":{"%d":{"id":"box-%d","podref":"default/gone-%d","ifname":"net1"}}}}`, key, key, key))
}

// Each release is in the history: those of runs, those of serve before and after a restart, and those of several
// processes at the same time.
func TestHistory_OfSeveralProcesses(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	kubeconfig := s.applied(t, "../deploy/deployment-with-agent")
	check(t, s.CreateNAD(t.Context(), blue))
	node := s.agent(t, "worker-1")
	for i := range 3 {
		s.pool(t, fmt.Sprintf("10.2.%d.0-24", i), fmt.Sprintf("10.2.%d.0/24", i), map[string]any{})
	}
	live := s.up(t, "worker-1", "live", blue)
	release := func(kubeconfig string) {
		v := s.serve(t, kubeconfig, "--leader-elect", "--repair")
		p := s.up(t, "worker-1", "web", blue)
		node.writeReport(t, p.listed(v1alpha1.SandboxReady), live.listed(v1alpha1.SandboxReady))
		p.forceDelete(t)
		node.writeReport(t, p.stopped(), live.listed(v1alpha1.SandboxReady))
		s.waitReleased(t, promptly, "10.1.0.0-24", "2")
		check(t, v.command.cmd.Process.Signal(syscall.SIGTERM)) // the record is written before it ends
		v.command.wait().exits(t, 0)
		if log := v.stderr.String(); strings.Contains(log, "forbidden") || strings.Contains(log, "history") {
			t.Errorf("the history was not written:\n%s", log)
		}
	}
	release(kubeconfig)
	release(kubeconfig) // another leader
	check(t, s.Client().CoreV1().Events(metav1.NamespaceSystem).DeleteCollection(t.Context(), metav1.DeleteOptions{},
		metav1.ListOptions{})) // they expire after an hour

	for i := range 3 {
		s.planted(t, fmt.Sprintf("10.2.%d.0-24", i), 9)
	}
	var runs []*command
	for i := range 3 {
		runs = append(runs, s.beginProduct(t, "run", "--confirm-after", "0", "--kubeconfig", s.Kubeconfig(),
			"--pool", fmt.Sprintf("10.2.%d.0-24", i)))
	}
	for _, c := range runs {
		c.wait().exits(t, 0)
	}
	s.patch(t, harness.IPPools, "10.2.1.0-24", pausing("true"))
	s.run(t).exits(t, 0)
	s.patch(t, harness.IPPools, "10.1.0.0-24", `{"spec":{"allocations":{"1":null}}}`)
	s.unreserve(t, "10.1.0.1")
	recovered := s.product(t, "recover", "--yes")
	recovered.exits(t, 0)
	contains(t, "while ADDs wait, stderr", recovered.stderr, "Waiting for new reports from worker-",
		"; ADDs and DELs wait, until ")

	all := s.recorded(t)
	texts := inShort(all)
	equal(t, "the first two", fmt.Sprint(texts[:2]), "[Released 10.1.0.2 default/web Released 10.1.0.2 default/web]")
	equal(t, "those of three runs", fmt.Sprint(slices.Sorted(slices.Values(texts[2:5]))), "[Released 10.2.0.9 "+
		"default/gone-9 Released 10.2.1.9 default/gone-9 Released 10.2.2.9 default/gone-9]")
	equal(t, "the pause and the repair", fmt.Sprint(texts[5:7]),
		"[Paused kube-system/10.2.1.0-24 Repaired 10.1.0.1 default/live]")
	equal(t, "the reservation, which is a repair of its own", fmt.Sprint(texts[7:]), "[Repaired 10.1.0.1 default/live]")
	first, other := all[0], all[2]
	equal(t, "the actor", first.Actor+" "+first.Command, "system:serviceaccount:kube-system:ip-reconcile serve")
	equal(t, "the run's", other.Command, "run")
	equal(t, "the verdict", fmt.Sprint(first.Verdict, first.Reason, first.Proven, first.Row, first.Evidence.Sandbox),
		"StalePodGonetruegone-endedStopped")
	equal(t, "the reservation", fmt.Sprint(first.Reservations), "[kube-system/10.1.0.2]")
	if first.Run == all[1].Run || first.ContainerID == all[1].ContainerID || time.Since(first.Time) > 10*time.Minute {
		t.Errorf("the first two are %+v", all[:2])
	}
	for subject, n := range map[string]int{"10.1.0.2": 2, "default/live": 2, "pool/10.2.1.0-24": 2, "10.2.0.0/24": 1,
		"10.9.9.9": 0, "default/nobody": 0} {
		equal(t, "records of "+subject, len(s.recorded(t, subject)), n)
	}
	equal(t, "records of the last moment", len(s.recorded(t, "--since", "0s")), 0)
	equal(t, "records of a week", len(s.recorded(t, "--since", "7d")), len(all))
	text := product(t, "history", "10.1.0.2", "--kubeconfig", s.Kubeconfig())
	text.exits(t, 0)
	contains(t, "the table", unwrapped(text.stdout), "HISTORY (2)", "Released 10.1.0.2 default/web PodGone "+
		"kube-system:ip-reconcile the pod does not exist and its sandbox has ended (Stopped)")
	s.editsByHand(t)
}

// editsByHand edits records as a person would by hand.
func (s *stage) editsByHand(t *testing.T) {
	t.Helper()
	api := s.Client().CoreV1().ConfigMaps(metav1.NamespaceSystem)
	list := try(api.List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=ip-reconcile"})).must(t)
	equal(t, "ConfigMaps", len(list.Items), 1)
	m := &list.Items[0]
	const key = "records.jsonl.gz"
	r := try(gzip.NewReader(bytes.NewReader(m.BinaryData[key]))).must(t)
	lines := strings.Split(string(try(io.ReadAll(r)).must(t)), "\n")
	for says, c := range map[string]struct {
		lines []string
		want  string
	}{
		"another verdict": {append([]string{strings.Replace(lines[0], `"verdict":"Stale"`, `"verdict":"Held"`, 1)},
			lines[1:]...), m.Name + ":1 The evidence of record 1 is judged Stale"},
		"a record less": {slices.Delete(slices.Clone(lines), 1, 2),
			m.Name + ":2 Records are missing: record 3 follows record 1"},
		"as it was": {lines, "0 faults"},
	} {
		var content bytes.Buffer
		w := gzip.NewWriter(&content)
		try(w.Write([]byte(strings.Join(c.lines, "\n")))).must(t)
		check(t, w.Close())
		m.BinaryData[key] = content.Bytes()
		m = try(api.Update(t.Context(), m, metav1.UpdateOptions{})).must(t)
		out, code := product(t, "history", "--verify", "--kubeconfig", s.Kubeconfig()), 1
		if c.want == "0 faults" {
			code = 0
		}
		out.exits(t, code)
		contains(t, says, unwrapped(out.stdout), c.want)
	}
}

// Without permissions on the ConfigMaps everything is released as before, with one warning. The file has the records.
func TestHistory_Forbidden(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	s.up(t, "worker-1", "live", blue)
	for _, key := range []int{7, 8} {
		s.planted(t, "10.1.0.0-24", key)
	}
	kubeconfig := s.account(t, "no-configmaps", upstreamRules(t))
	file := filepath.Join(t.TempDir(), "audit.log")
	args := []string{"run", "--confirm-after", "0", "--audit-log", file, "--without-pause", "--reconciler-namespace",
		"kube-system", "--agents=auto", "--kubeconfig", kubeconfig}
	for _, address := range []string{"10.1.0.7", "10.1.0.8"} {
		out := product(t, append(args, "--address", address)...)
		out.exits(t, 0)
		equal(t, "warnings", strings.Count(out.stderr, "Could not write the history"), 1)
		contains(t, "the warning", out.stderr, "level=WARN", "forbidden", "ip-reconcile-history-0")
	}
	equal(t, "what remains", len(s.contents(t)), 2)
	refused := product(t, "history", "--reconciler-namespace", "kube-system", "--kubeconfig", kubeconfig)
	refused.exits(t, 2)
	contains(t, "history", refused.stderr, "read ConfigMap kube-system/ip-reconcile-history-0: forbidden")
	equal(t, "records in the cluster", len(s.recorded(t)), 0)

	product(t, "release", "10.1.0.1", "--yes", "--kubeconfig", s.Kubeconfig()).exits(t, 1) // it is in use
	s.product(t, "release", "10.1.0.1", "--dry-run").exits(t, 1)
	equal(t, "what a person was refused", fmt.Sprint(inShort(s.recorded(t))), "[Refused 10.1.0.1 default/live]")

	text := product(t, "history", "--filename", file)
	text.exits(t, 0)
	contains(t, "the file", unwrapped(text.stdout), "HISTORY (2)", "Released 10.1.0.7 default/gone-7 PodGone "+
		"kube-system:no-configmaps", "Released 10.1.0.8")
	product(t, "history", "--verify", "--filename", file).exits(t, 0)
	log := try(os.ReadFile(file)).must(t)
	check(t, os.WriteFile(file, bytes.Replace(log, []byte(`{"seq":1,`), []byte(`{"seq":one,`), 1), 0o600))
	out := product(t, "history", "--verify", "--filename", file)
	out.exits(t, 1)
	contains(t, "the edited file", out.stdout, file+":1", "It cannot be read")
}
