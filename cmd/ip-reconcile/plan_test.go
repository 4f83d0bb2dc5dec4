package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/planfile"
)

// withNamespace is the sample with the namespace that says of which cluster it is.
func withNamespace(t *testing.T) (dir string) {
	t.Helper()
	dir = copySample(t)
	appendTo(t, dir, "namespace.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: kube-system, uid: uid-1}\n")
	return dir
}

func TestPlan_OfASnapshot(t *testing.T) {
	dir, folder := withNamespace(t), t.TempDir()
	for _, args := range [][]string{{"--output-file", filepath.Join(folder, "plan.json")},
		{"--output-file", filepath.Join(folder, "plan.yaml"), "-o", "name"}} {
		code, out, errs := run(t, append([]string{"plan", "--snapshot", dir}, args...)...)
		if code != exitClean || !strings.Contains(out, "10.0.0.20") {
			t.Errorf("%v: exit code %d\n%s%s", args, code, out, errs)
		}
		p, err := planfile.ReadFile(args[1])
		check(t, err)
		if p.Cluster.UID != "uid-1" || p.Cluster.Snapshot != dir || len(p.Items) < 5 {
			t.Errorf("%v: the plan is of %+v, and has %d items", args, p.Cluster, len(p.Items))
		}
		if err := p.Check("uid-2", p.ObservedAt, time.Hour); err == nil {
			t.Error("the plan is for every cluster")
		}
		if err := p.Check("uid-1", p.ObservedAt, time.Hour); err != nil {
			t.Error(err)
		}
	}
}

func TestSnapshot_OfTwoClustersIsRefused(t *testing.T) {
	dir := withNamespace(t)
	appendTo(t, dir, "other.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: kube-system, uid: uid-2}\n")
	refused(t, []string{"check", "--snapshot", dir}, []string{"Namespace /kube-system", "differ"})
}

func TestPlan_SaysWhatItWrites(t *testing.T) {
	dir, file := withNamespace(t), filepath.Join(t.TempDir(), "plan.json")
	args := []string{"plan", "--snapshot", dir, "--output-file", file}
	run(t, args...)
	refused(t, args, []string{"--output-file " + file + ": the file exists", "choose another name"})
	empty := filepath.Join(t.TempDir(), "empty.json")
	_, out, _ := run(t, "plan", "--snapshot", dir, "--address", "10.0.0.1", "--output-file", empty)
	if strings.Contains(out, "apply -f") || !strings.Contains(out, "Wrote "+empty+" without items") {
		t.Errorf("the plan without items says:\n%s", out)
	}
}

// The command can be pasted: a shell reads the file's name, and apply judges as plan does.
func TestPlan_PrintsTheCommandThatAppliesIt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "it's $(my) plan.json")
	_, out, errs := run(t, "plan", "--snapshot", retirableIn(t), "--output-file", file, "--allow-mass-release",
		"--unreachable-node-timeout", "1h")
	_, command, isThere := strings.Cut(out, "then run:\n    ip-reconcile ")
	if !isThere {
		t.Fatalf("no command:\n%s%s", out, errs)
	}
	words, err := exec.Command("sh", "-c", `printf '%s\n' `+command).Output()
	check(t, err)
	want := "apply\n-f\n" + file + "\n--allow-mass-release\n--context=CONTEXT_OF_THAT_CLUSTER\n" +
		"--unreachable-node-timeout=1h0m0s\n"
	if string(words) != want {
		t.Errorf("got\n%swant\n%s", words, want)
	}
}

func TestPlan_HelpExportsTheNamespace(t *testing.T) {
	if _, out, _ := run(t, "plan", "--help"); !strings.Contains(out, "  kubectl get namespace kube-system -o yaml") {
		t.Errorf("the help lacks the namespace:\n%s", out)
	}
}
