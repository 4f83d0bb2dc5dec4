package main

import (
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
		{"--output-file", filepath.Join(folder, "plan.yaml"), "-o", "name"},
		{"-o", filepath.Join(folder, "old.yml")}} {
		code, out, errs := run(t, append([]string{"plan", "--snapshot", dir}, args...)...)
		if code != exitClean || !strings.Contains(out, "10.0.0.20") ||
			(args[0] == "-o") != strings.Contains(errs, "use --output-file ") {
			t.Errorf("%v: exit code %d\n%s%s", args, code, out, errs)
		}
		p, err := planfile.ReadFile(args[1])
		if err != nil {
			t.Fatal(err)
		}
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

func TestFlags_OldNames(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	write(t, log, `{"seq":1,"what":"Paused"}`+"\n")
	for _, c := range []struct{ command, old, now, value string }{
		{"release --snapshot " + sample, "node", "on-node", "worker-4"},
		{"history", "file", "filename", log},
	} {
		_, want, plain := run(t, append(strings.Fields(c.command), "--"+c.now, c.value)...)
		_, got, errs := run(t, append(strings.Fields(c.command), "--"+c.old, c.value)...)
		if note := "Flag --" + c.old + " has been deprecated, use --" + c.now + "\n"; errs != note+plain {
			t.Errorf("%s --%s: stderr %q", c.command, c.old, errs)
		}
		if c.command != "history" && got != want { // which prints the time
			t.Errorf("%s --%s: %s, want %s", c.command, c.old, got, want)
		}
	}
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

func TestPlan_HelpExportsTheNamespace(t *testing.T) {
	if _, out, _ := run(t, "plan", "--help"); !strings.Contains(out, "  kubectl get namespace kube-system -o yaml") {
		t.Errorf("the help lacks the namespace:\n%s", out)
	}
}
