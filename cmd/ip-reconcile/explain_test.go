package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view/explain"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// explained runs explain on a snapshot, as text and as JSON.
func explained(t *testing.T, dir, what string, more ...string) (text string, d view.ExplainReport) {
	t.Helper()
	args := append([]string{"explain", what, "--snapshot", dir}, more...)
	_, text, errs := run(t, args...)
	if errs != "" {
		t.Fatalf("explain %s: %s", what, errs)
	}
	_, out, _ := run(t, append(args, "-o", "json")...)
	check(t, json.Unmarshal([]byte(out), &d))
	return text, d
}

// ofThatCluster is in every command that is advised out of a snapshot.
const ofThatCluster = " --context=CONTEXT_OF_THAT_CLUSTER"

// appendTo adds objects to a file of a snapshot.
func appendTo(t *testing.T, dir, file, text string) {
	t.Helper()
	path := filepath.Join(dir, file)
	old, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	write(t, path, string(old)+"\n---\n"+text)
}

// edit replaces a text in a file of a snapshot.
func edit(t *testing.T, dir, file, from, to string) {
	t.Helper()
	path := filepath.Join(dir, file)
	old, err := os.ReadFile(path)
	check(t, err)
	if !strings.Contains(string(old), from) {
		t.Fatalf("%s has no %q", file, from)
	}
	text := strings.Replace(string(old), from, to, 1)
	write(t, path, text)
	if file == "sandboxreports.yaml" {
		confirm(t, dir, text)
	}
}

// confirm makes the Leases of a snapshot confirm its reports.
func confirm(t *testing.T, dir, reports string) {
	t.Helper()
	for _, document := range strings.Split(reports, "\n---\n") {
		r := &v1alpha1.SandboxReport{}
		check(t, yaml.Unmarshal([]byte(document), r))
		path := filepath.Join(dir, "leases.yaml")
		old, err := os.ReadFile(path)
		check(t, err)
		hash := regexp.MustCompile(`(name: ` + r.Name + `,.*report-hash: )[0-9a-f]+`)
		write(t, path, hash.ReplaceAllString(string(old), "${1}"+podstate.Hash(r)))
	}
}

func pauseEverything(t *testing.T, dir string) {
	t.Helper()
	appendTo(t, dir, "namespace.yaml", `apiVersion: v1
kind: Namespace
metadata: {name: kube-system, annotations: {ip-reconcile.dev/paused: "true"}}
`)
}

func pausePool(t *testing.T, dir string) {
	t.Helper()
	edit(t, dir, "ippools.yaml", "name: 10.0.0.0-24\n",
		"name: 10.0.0.0-24\n  annotations: {ip-reconcile.dev/paused: \"true\"}\n")
}

// restoreEtcd has the reconciler wait for reports since a restore, which only worker-2 has written.
func restoreEtcd(t *testing.T, dir string) {
	t.Helper()
	edit(t, dir, "leases.yaml", "metadata: {name: worker-2,", `metadata: {name: worker-2, resourceVersion: "102",`)
	edit(t, dir, "leases.yaml", "metadata: {name: worker-3,", `metadata: {name: worker-3, resourceVersion: "100",`)
	edit(t, dir, "leases.yaml", "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: worker-1,",
		"apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: ip-reconcile-restore, namespace: kube-system, "+
			`annotations: {ip-reconcile.dev/restore: '{"id":"k3f7q2m9xa","restored":"2026-11-20T09:59:50Z","why":`+
			`"reported by the agent on node worker-2","since":"100","asked":true,"doubtsAll":true}'}}`+"\n---\n"+
			"apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: worker-1,")
}

// leakMany makes a pool of entries whose pods are gone, without a proof.
func leakMany(t *testing.T, dir string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("apiVersion: whereabouts.cni.cncf.io/v1alpha1\nkind: IPPool\n" +
		"metadata: {name: worker-1-10.1.0.64-26, namespace: kube-system, resourceVersion: \"9\"}\nspec:\n" +
		"  range: 10.1.0.64/26\n  allocations:\n")
	for i := 1; i <= 50; i++ {
		fmt.Fprintf(&b, "    \"%d\": {id: \"%064d\", podref: default/leak-%d, ifname: net1}\n", i, i, i)
	}
	appendTo(t, dir, "ippools.yaml", b.String())
}

// golden compares a text with that of a file in testdata.
func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		write(t, path, got)
	}
	want, err := os.ReadFile(path)
	check(t, err)
	if got != string(want) {
		at := 0
		for at < min(len(got), len(want)) && got[at] == want[at] {
			at++
		}
		t.Errorf("%s differs; see what with 'go test ./cmd/ip-reconcile -run %s -update' and 'git diff'. From there on it "+
			"is:\n%.600s", path, t.Name(), got[max(0, at-200):])
	}
}

// What stands against a release, by a change of the sample; nothing of it is said to be released.
func TestExplain_Gates(t *testing.T) {
	all := ""
	for _, c := range []struct {
		name string
		make func(*testing.T, string)
		ask  []string
		want string // the refusals, in order
	}{
		{"everything is paused", pauseEverything, []string{"10.0.0.20"}, "Paused"},
		{"its pool is paused", pausePool, []string{"10.0.0.20"}, "Paused"},
		{"etcd was restored", restoreEtcd, []string{"10.0.0.20"}, "EtcdRestored"},
		{"the breaker tripped", leakMany, []string{"10.1.0.65", "--confirm-after", "0"}, "Breaker"},
		{"it is not confirmed", func(*testing.T, string) {}, []string{"10.0.0.22"}, "AwaitingConfirmation"},
		{"everything at once", func(t *testing.T, dir string) {
			pauseEverything(t, dir)
			pausePool(t, dir)
			restoreEtcd(t, dir)
		}, []string{"10.0.0.22"}, "Paused EtcdRestored Paused AwaitingConfirmation"},
		{"nothing", func(*testing.T, string) {}, []string{"10.0.0.20"}, ""},
	} {
		dir := copySample(t)
		c.make(t, dir)
		text, d := explained(t, dir, c.ask[0], c.ask[1:]...)
		all += fmt.Sprintf("# %s\n%s\n", c.name, strings.ReplaceAll(text, dir, "SNAPSHOT"))
		var got []string
		for _, g := range d.Items[0].Gates {
			got = append(got, string(g.Refusal))
		}
		if strings.Join(got, " ") != c.want || d.Items[0].Verdict != judge.Stale {
			t.Errorf("%s: the gates are %q, want %q, of what is %s", c.name, got, c.want, d.Items[0].Verdict)
		}
	}
	golden(t, "explain_gates.txt", all)
}

// The golden file has the explanations of things that exist and of things that do not.
func TestExplain_Text(t *testing.T) {
	all := ""
	for _, ask := range []string{"10.0.0.20", "default/web-0", "pod/default/ghost", "default/moved", "default/web-1",
		"node/worker-4", "node/worker-5", "pool/10.0.0.0-24", "pool/kube-system/worker-1-10.1.0.0-26", "pool/broken",
		"10.0.0.200", "default/nobody", "node/nowhere", "pool/nothing", "10.7.0.0/16"} {
		code, text, errs := run(t, "explain", ask, "--snapshot", sample)
		_, d := explained(t, sample, ask)
		if (code == exitClean) != d.Found || code == exitFailed {
			t.Errorf("%s: exit code %d, found %v: %s", ask, code, d.Found, errs)
		}
		if _, err := explain.ParseSubject(d.Subject.Name); err != nil {
			t.Errorf("the name of the subject cannot be asked about: %v", err)
		}
		all += fmt.Sprintf("$ ip-reconcile explain %s  # %s %s, exit code %d\n%s\n", ask, d.Subject.Kind, d.Subject.Name,
			code, text)
	}
	golden(t, "explain.txt", all)
	for _, c := range []struct{ ask, plain, name string }{ // what is there has other names, too
		{"::ffff:10.0.0.20", "10.0.0.20", "10.0.0.20"},
		{"10.1.0.0/26", "pool/kube-system/worker-1-10.1.0.0-26", "10.1.0.0/26"},
		{"kube-system/10.0.0.0-24", "pool/10.0.0.0-24", "pool/kube-system/10.0.0.0-24"},
	} {
		text, d := explained(t, sample, c.ask)
		if want, _ := explained(t, sample, c.plain); text != want || !d.Found || d.Subject.Name != c.name {
			t.Errorf("%s: the subject is %s, of which it says\n%s", c.ask, d.Subject.Name, text)
		}
	}
}

func TestExplain_JSON(t *testing.T) {
	_, out, _ := run(t, "explain", "10.0.0.20", "--snapshot", sample, "-o", "json")
	golden(t, "explain.json", out)
}

// subjects are everything in the sample that can be asked about.
func subjects(t *testing.T) (all []string) {
	t.Helper()
	_, out, _ := run(t, "check", "--snapshot", sample, "--all", "-o", "json")
	var d view.CheckReport
	check(t, json.Unmarshal([]byte(out), &d))
	for _, a := range d.Allocations {
		all = append(all, a.IP)
		if a.PodRef != "" {
			all = append(all, a.PodRef)
		}
	}
	for _, p := range d.Pools {
		all = append(all, "pool/"+p.Pool)
	}
	return append(all, "10.0.0.40", "10.0.0.51", "default/twin", "default/lost", "node/worker-1", "node/worker-2",
		"node/worker-3", "node/worker-4", "node/worker-5", "node/worker-6")
}

func TestExplain_CommandsParse(t *testing.T) {
	parsed := 0
	for _, ask := range subjects(t) {
		_, d := explained(t, sample, ask, "--reconciler-namespace", "kube-system", "--agents", "required", "--confirm-after",
			"1m", "--agent-nodes", "kubernetes.io/os=linux")
		for _, a := range d.Advice {
			if fields := strings.Fields(a.Command); len(fields) > 0 && fields[0] == "ip-reconcile" {
				parsed++
				for i, field := range fields { // which is refused: the operator replaces it
					fields[i] = strings.Replace(field, "=SENTENCE", "=it was scrapped", 1)
				}
				parses(t, fields[1:])
			}
		}
	}
	if parsed == 0 {
		t.Error("no command of ours is advised")
	}
}

func TestExplain_CommandsNameTheClusterAndTheNamespace(t *testing.T) {
	_, d := explained(t, sample, "10.0.0.20", "--reconciler-namespace", "ops", "--context", "prod", "--as", "alice",
		"--as-group", "a,b", "--as-group", "c", "--token", "secret")
	cluster := " --as=alice --as-group=a,b --as-group=c --context=prod"
	for _, a := range d.Advice {
		if strings.HasPrefix(a.Command, "ip-reconcile ") && !strings.HasSuffix(a.Command, cluster+
			" --reconciler-namespace=ops") || strings.HasPrefix(a.Command, "kubectl ") &&
			!strings.HasPrefix(a.Command, "kubectl"+cluster+" ") || strings.Contains(a.Command, "secret") {
			t.Error(a.Command)
		}
	}
}

func TestExplain_RepairReleasesNothing(t *testing.T) {
	ran := 0
	_, d := explained(t, sample, "pool/10.0.0.0-24")
	for _, a := range d.Advice {
		if !strings.HasPrefix(a.Command, "ip-reconcile run --repair") || strings.Contains(a.Command, " --dry-run") {
			continue
		}
		ran++
		_, out, _ := run(t, append(strings.Fields(strings.TrimSuffix(a.Command, ofThatCluster))[1:], "--snapshot", sample,
			"--log-level", "error")...)
		if !strings.Contains(out, "WOULD BE REPAIRED (5)") || strings.Contains(out, "RELEASED") {
			t.Errorf("%s:\n%s", a.Command, out)
		}
	}
	if ran != 1 {
		t.Errorf("%d repairs are advised", ran)
	}
}

// parses checks that a command line is one of ours, with flags and arguments that it takes.
func parses(t *testing.T, args []string) {
	t.Helper()
	c, rest, err := newRoot(terminal()).Find(args)
	if err == nil {
		err = c.ParseFlags(rest)
	}
	if err == nil {
		err = c.ValidateArgs(c.Flags().Args())
	}
	if args := c.Flags().Args(); err == nil && c.Name() == "explain" && len(args) > 0 {
		_, err = explain.ParseSubject(args[0])
	}
	if err != nil || c.Name() == "ip-reconcile" {
		t.Errorf("%q: %v", args, err)
	}
}
