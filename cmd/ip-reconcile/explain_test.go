package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/explanation"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// explained runs explain on a snapshot, as text and as JSON.
func explained(t *testing.T, dir, what string, more ...string) (text string, d document.Explanation) {
	t.Helper()
	args := append([]string{"explain", what, "--snapshot", dir}, more...)
	_, text, errs := run(t, args...)
	if errs != "" {
		t.Fatalf("explain %s: %s", what, errs)
	}
	_, out, _ := run(t, append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(old), from) {
		t.Fatalf("%s has no %q", file, from)
	}
	write(t, path, strings.Replace(string(old), from, to, 1))
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
	edit(t, dir, "ippools.yaml", "name: 10.0.0.0-24\n", "name: 10.0.0.0-24\n  annotations: {ip-reconcile.dev/paused: \"true\"}\n")
}

func restoreEtcd(t *testing.T, dir string) {
	t.Helper()
	edit(t, dir, "sandboxreports.yaml", "metadata: {name: worker-2}", `metadata: {name: worker-2, annotations: {ip-reconcile.dev/etcd-restored: "2026-11-20T09:59:50Z"}}`)
}

// leakMany makes a pool of entries whose pods are gone, without a proof.
func leakMany(t *testing.T, dir string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("apiVersion: whereabouts.cni.cncf.io/v1alpha1\nkind: IPPool\nmetadata: {name: worker-1-10.1.0.64-26, namespace: kube-system, resourceVersion: \"9\"}\nspec:\n  range: 10.1.0.64/26\n  allocations:\n")
	for i := 1; i <= 50; i++ {
		fmt.Fprintf(&b, "    \"%d\": {id: \"%064d\", podref: default/leak-%d, ifname: net1}\n", i, i, i)
	}
	appendTo(t, dir, "ippools.yaml", b.String())
}

func TestWhatIsGatedIsNeverSaidToBeReleased(t *testing.T) {
	for name, c := range map[string]struct {
		make func(*testing.T, string)
		ip   string
		args []string
		want []string // the refusals, in order
		says []string
	}{
		"everything is paused": {pauseEverything, "10.0.0.20", nil, []string{"Paused"},
			[]string{"everything is paused", "kubectl annotate namespace kube-system ip-reconcile.dev/paused-"}},
		"its pool is paused": {pausePool, "10.0.0.20", nil, []string{"Paused"},
			[]string{"pool kube-system/10.0.0.0-24 is paused", "kubectl annotate ippools.whereabouts.cni.cncf.io -n kube-system 10.0.0.0-24 ip-reconcile.dev/paused-"}},
		"etcd was restored": {restoreEtcd, "10.0.0.20", nil, []string{"EtcdRestored"},
			[]string{"etcd was restored at 2026-11-20T09:59:50Z", "ip-reconcile.dev/restore-acknowledged=2026-11-20T09:59:50Z", "spec.nodeName=worker-3", "taint nodes worker-4 "}},
		"the breaker tripped": {leakMany, "10.1.0.65", []string{"--confirm-after", "0"}, []string{"Breaker"},
			[]string{"look like a fault elsewhere", "ip-reconcile run --pool=kube-system/worker-1-10.1.0.64-26 --allow-mass-release --confirm-after=0s"}},
		"it is not confirmed": {func(*testing.T, string) {}, "10.0.0.22", nil, []string{"AwaitingConfirmation"},
			[]string{"will be released at 2026-11-20T10:00:40Z", "ip-reconcile run --pool=kube-system/10.0.0.0-24 --address=10.0.0.22\n"}},
		"everything at once": {func(t *testing.T, dir string) {
			pauseEverything(t, dir)
			pausePool(t, dir)
			restoreEtcd(t, dir)
		}, "10.0.0.22", nil, []string{"Paused", "EtcdRestored", "Paused", "AwaitingConfirmation"},
			[]string{"confirmed at 2026-11-20T10:00:40Z", "that alone releases nothing", "annotate namespace kube-system ip-reconcile.dev/paused-", "annotate ippools.whereabouts.cni.cncf.io"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copySample(t)
			c.make(t, dir)
			text, d := explained(t, dir, c.ip, c.args...)
			it := d.Items[0]
			var got []string
			for _, g := range it.Gates {
				got = append(got, string(g.Refusal))
			}
			if strings.Join(got, " ") != strings.Join(c.want, " ") || it.Verdict != judge.Stale {
				t.Errorf("the gates are %q, want %q, of what is %s", got, c.want, it.Verdict)
			}
			text = strings.ReplaceAll(text, ofThatCluster, "")
			oneLine := strings.Join(strings.Fields(text), " ")
			for _, want := range c.says {
				if !strings.Contains(text, want) && !strings.Contains(oneLine, want) {
					t.Errorf("%q is not said:\n%s", want, text)
				}
			}
			for _, wrong := range []string{"nothing stands against it", "at once", "freed now", "release now", "Free it. 'serve'"} {
				if strings.Contains(strings.ReplaceAll(oneLine, "Then free it. 'serve'", ""), wrong) {
					t.Errorf("it says %q of what is gated:\n%s", wrong, text)
				}
			}
			if len(c.want) > 1 && strings.Contains(oneLine, "will be released at") {
				t.Errorf("it promises a time while other gates stand:\n%s", text)
			}
		})
	}
}

func TestWhatNothingStandsAgainstIsSaidToBeReleased(t *testing.T) {
	text, d := explained(t, sample, "10.0.0.20")
	if !strings.Contains(text, "nothing stands against it: the next pass releases it") || len(d.Items[0].Gates) != 0 {
		t.Errorf("gates %v:\n%s", d.Items[0].Gates, text)
	}
}

func TestExplainTakesWhatPeopleAskAbout(t *testing.T) {
	for _, c := range []struct {
		ask, kind, name string
		says            []string
	}{
		{"10.0.0.20", "Address", "10.0.0.20", []string{"PodReplaced", "live-replaced | pod: live | sandbox: Stopped, Gone | when: it is not its pod", "podref default/db-0", "the sandbox is another pod's", "kube-system/10.0.0.20: Stale"}},
		{"::ffff:10.0.0.20", "Address", "10.0.0.20", []string{"PodReplaced"}},
		{"default/web-0", "Pod", "pod/default/web-0", []string{"live on node worker-1", "readable, with 10.0.0.1", "Ready on worker-1", "10.0.0.1 in pool", "default/web-0 on worker-1 keeps 10.0.0.1"}},
		{"pod/default/ghost", "Pod", "pod/default/ghost", []string{"it has no such pod", "10.0.0.4 in pool", "crictl stopp 0404"}},
		{"default/moved", "Pod", "pod/default/moved", []string{"10.0.0.41 in pool", "podref default/past-0", "Misrecorded", "run --repair"}},
		{"default/web-1", "Pod", "pod/default/web-1", []string{"Pending on node worker-1", "its ADD is under way, or fails", "kubectl describe pod -n default web-1"}},
		{"node/worker-4", "Node", "node/worker-4", []string{"not Ready since 2026-11-20T07:00:00Z", "report: not fresh", "Lease renewed 2026-11-20T07:00:00Z", "containerd 2.4.2", "1 NodeUnreachable", "default/web-8", "taint nodes worker-4 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"}},
		{"node/worker-5", "Node", "node/worker-5", []string{"out-of-service", "1 NodeDead", "taint nodes worker-5 node.kubernetes.io/out-of-service-"}},
		{"pool/10.0.0.0-24", "Pool", "pool/10.0.0.0-24", []string{"pool kube-system/10.0.0.0-24", "10.0.0.0/24", "default/storage", "1 PodGone", "10.0.0.27", "default/web-13"}},
		{"pool/kube-system/worker-1-10.1.0.0-26", "Pool", "pool/kube-system/worker-1-10.1.0.0-26", []string{"default/fast", "AddressNotOnPod"}},
		{"10.1.0.0/26", "Pool", "10.1.0.0/26", []string{"pool kube-system/worker-1-10.1.0.0-26"}},
		{"pool/broken", "Pool", "pool/broken", []string{"is not an address with a prefix length"}},
	} {
		t.Run(c.ask, func(t *testing.T) {
			text, d := explained(t, sample, c.ask)
			if d.Subject != (document.Subject{Kind: c.kind, Name: c.name}) || !d.Found {
				t.Errorf("the subject is %+v, found %v", d.Subject, d.Found)
			}
			oneLine := strings.Join(strings.Fields(strings.ReplaceAll(text, ofThatCluster, "")), " ")
			for _, want := range c.says {
				if !strings.Contains(strings.ReplaceAll(oneLine, "report not", "report: not"), want) {
					t.Errorf("%q is not said:\n%s", want, text)
				}
			}
			if _, err := explanation.ParseSubject(d.Subject.Name); err != nil {
				t.Errorf("the name of the subject cannot be asked about: %v", err)
			}
		})
	}
}

func TestWhatIsNotThereIsSaidAndWhatMayBeMeant(t *testing.T) {
	for ask, want := range map[string][]string{
		"10.0.0.200":              {"recorded in no pool", "kube-system/10.0.0.0-24"},
		"default/nobody":          {"There is no pod default/nobody"},
		"kube-system/10.0.0.0-24": {"There is no pod kube-system/10.0.0.0-24", "There is a pool by that name", "ip-reconcile explain pool/kube-system/10.0.0.0-24"},
		"node/nowhere":            {"Nothing is known of a node nowhere"},
		"pool/nothing":            {"There is no such pool"},
		"10.7.0.0/16":             {"There is no such pool (10.7.0.0/16)"},
	} {
		code, out, errs := run(t, "explain", ask, "--snapshot", sample)
		if code != exitLeft {
			t.Errorf("%s: exit code %d, %s", ask, code, errs)
		}
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%s: %q is not said:\n%s", ask, w, out)
			}
		}
	}
}

func TestExplainRefusesWhatIsNoneOfTheFourForms(t *testing.T) {
	for _, ask := range []string{"10.0.0", "web-0", "node/", "node/a/b", "pool/", "pool/a/b/c", "pod/web-0", "Default/web-0", "a/b/c", "10.0.0.0/33", ""} {
		refused(t, []string{"explain", ask, "--snapshot", sample}, []string{fmt.Sprintf("%q is not something that can be explained", ask),
			"IP address (10.0.0.7)", "pod (default/web-0", "node (node/worker-1)", "pool (pool/10.0.0.0-24"})
	}
}

// subjects are everything in the sample that can be asked about.
func subjects(t *testing.T) (all []string) {
	t.Helper()
	_, out, _ := run(t, "check", "--snapshot", sample, "--all", "-o", "json")
	var d document.Check
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	for _, a := range d.Allocations {
		all = append(all, a.IP)
		if a.PodRef != "" {
			all = append(all, a.PodRef)
		}
	}
	for _, p := range d.Pools {
		all = append(all, "pool/"+p.Pool)
	}
	return append(all, "10.0.0.40", "10.0.0.51", "default/twin", "default/lost", "node/worker-1", "node/worker-2", "node/worker-3", "node/worker-4", "node/worker-5", "node/worker-6")
}

func TestExplainCutsNoAddressNameOrCommandAtAnyWidth(t *testing.T) {
	names := regexp.MustCompile(`…|\.\.\.`)
	widths := []int{40, 60, 80, 120, 200, 300}
	for i, ask := range subjects(t) {
		_, d := explained(t, sample, ask)
		want := map[string]bool{}
		for _, a := range d.Advice {
			want[a.Command] = true
		}
		for _, it := range d.Items {
			if shown := it.Verdict != judge.InUse || d.Subject.Kind == "Address" || d.Subject.Kind == "Pod"; shown {
				want[it.IP], want[it.PodRef] = true, true
			}
		}
		at := widths
		if testing.Short() {
			at = widths[i%len(widths):][:1]
		}
		for _, width := range at {
			t.Setenv("COLUMNS", fmt.Sprint(width))
			_, out, _ := run(t, "explain", ask, "--snapshot", sample)
			lines := map[string]bool{}
			for line := range strings.Lines(out) {
				lines[strings.TrimSpace(line)] = true
			}
			for text := range want {
				isCommand := strings.Contains(text, " ")
				if text != "" && (isCommand && !lines[text] || !isCommand && !strings.Contains(out, text)) {
					t.Errorf("%s at %d columns lacks %q:\n%s", ask, width, text, out)
				}
			}
			if cut := names.FindString(out); cut != "" {
				t.Errorf("%s at %d columns has %q:\n%s", ask, width, cut, out)
			}
		}
	}
}

func TestEveryCommandOfOursThatIsAdvisedCanBeRun(t *testing.T) {
	parsed := 0
	for _, ask := range subjects(t) {
		_, d := explained(t, sample, ask, "--reconciler-namespace", "kube-system", "--agents", "required", "--confirm-after", "1m", "--agent-nodes", "kubernetes.io/os=linux")
		for _, a := range d.Advice {
			if fields := strings.Fields(a.Command); len(fields) > 0 && fields[0] == "ip-reconcile" {
				parsed++
				parses(t, fields[1:])
			}
		}
	}
	if parsed == 0 {
		t.Error("no command of ours is advised")
	}
}

func TestAdviceIsForTheClusterAndThePauseThatWereAskedAbout(t *testing.T) {
	_, d := explained(t, sample, "10.0.0.20", "--reconciler-namespace", "ops", "--context", "prod", "--as", "alice", "--as-group", "a,b", "--as-group", "c", "--token", "secret")
	cluster := " --as=alice --as-group=a,b --as-group=c --context=prod"
	for _, a := range d.Advice {
		if strings.HasPrefix(a.Command, "ip-reconcile ") && !strings.HasSuffix(a.Command, cluster+" --reconciler-namespace=ops") ||
			strings.HasPrefix(a.Command, "kubectl ") && !strings.HasPrefix(a.Command, "kubectl"+cluster+" ") || strings.Contains(a.Command, "secret") {
			t.Error(a.Command)
		}
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	if _, d = explained(t, sample, "10.0.0.20", "--namespace", "ops", "--log-level", "error"); !strings.HasSuffix(d.Advice[0].Command, ofThatCluster+" --reconciler-namespace=ops") {
		t.Errorf("by the flag's former name: %s", d.Advice[0].Command)
	}
}

func TestARepairThatIsAdvisedFreesNothing(t *testing.T) {
	ran := 0
	_, d := explained(t, sample, "pool/10.0.0.0-24")
	for _, a := range d.Advice {
		if !strings.HasPrefix(a.Command, "ip-reconcile run --repair") || strings.Contains(a.Command, " --dry-run") {
			continue
		}
		ran++
		_, out, _ := run(t, append(strings.Fields(strings.TrimSuffix(a.Command, ofThatCluster))[1:], "--snapshot", sample, "--log-level", "error")...)
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
	if err != nil || c.Name() == "ip-reconcile" {
		t.Errorf("%q: %v", args, err)
	}
}

func TestTheEvidenceOfAnExplanationIsInItsDocument(t *testing.T) {
	_, d := explained(t, sample, "10.0.0.20")
	it := d.Items[0]
	e := it.Evidence
	if e == nil || e.Pod == nil {
		t.Fatalf("%+v", it)
	}
	want := document.EvidencePod{Name: "default/db-0", UID: "00000000-0000-4000-8000-000000000015", Node: "worker-1", Phase: "live", Ownership: "NotItsPod", NetworkStatus: "Readable"}
	if *e.Pod != want {
		t.Errorf("the pod is %+v, want %+v", *e.Pod, want)
	}
	if e.Sandbox.State != "Stopped" || e.Sandbox.UID != "00000000-0000-4000-8000-000000000915" || strings.Join(e.Sandbox.Nodes, " ") != "worker-1" {
		t.Errorf("the sandbox is %+v", e.Sandbox)
	}
	if it.Rule != "live-replaced" || !strings.HasPrefix(it.RuleText, "live-replaced | pod: live") || it.Pool != "kube-system/10.0.0.0-24" || it.Key != "20" {
		t.Errorf("%+v", it)
	}
	if len(d.Allocations) != 1 || len(d.Reservations) != 1 || len(d.Items) != 2 || d.Summary.Allocations != 1 || d.Items[1].SharesVerdictOf != "kube-system/10.0.0.0-24" {
		t.Errorf("allocations %d, reservations %d, items %+v", len(d.Allocations), len(d.Reservations), d.Items)
	}
	if len(d.Nodes) != 1 || d.Nodes[0].Report == nil || !d.Nodes[0].Report.Fresh || d.Nodes[0].Report.Runtime != "containerd 2.4.2" || d.Nodes[0].Agent != "Fresh" {
		t.Errorf("%+v", d.Nodes)
	}
	if _, err := netip.ParseAddr(it.IP); err != nil {
		t.Error(err)
	}
}
