package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
)

func TestADryRunSaysWhatIsReleasedNowLaterOrNot(t *testing.T) {
	dir := copySample(t)
	pool, err := os.ReadFile(filepath.Join(dir, "ippools.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "ippools.yaml"), strings.Replace(string(pool), "  name: worker-1-10.1.0.0-26\n", "  name: worker-1-10.1.0.0-26\n  annotations: {ip-reconcile.dev/paused: \"true\"}\n", 1))
	_, out, _ := run(t, "run", "--dry-run", "--repair", "--snapshot", dir)
	for _, want := range []string{"A dry run: nothing is written.", "WOULD BE RELEASED NOW (6)", "WOULD BE RELEASED LATER (1)", "WOULD NOT BE RELEASED (2)", "AddressNotOnPod?  Paused", "WOULD BE REPAIRED (5)", "Paused: pool kube-system/worker-1-10.1.0.0-26 is paused"} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
}

func TestAFilterOfWhatIsNotThereIsAnErrorAtTheEnd(t *testing.T) {
	for flag, says := range map[string]string{
		"--pool=10.0.0.0-24,10.0.0.0-42": `--pool "10.0.0.0-42": there is no such pool`, "--pool=10.0.0.0/23": `--pool "10.0.0.0/23": there is no such pool`,
		"--pod-namespace=nope": `--pod-namespace "nope": it has no pods`, "--on-node=nope": `--on-node "nope": there is no such node`,
	} {
		for _, command := range []string{"check", "run"} {
			code, _, errs := run(t, command, "--snapshot", copySample(t), "--log-level", "error", flag)
			if code != exitFailed || !strings.Contains(errs, says) {
				t.Errorf("%s %s: exit code %d, %s", command, flag, code, errs)
			}
		}
	}
}

func TestAPoolIsAskedForByItsRangeToo(t *testing.T) {
	of := func(pool string) string {
		_, out, _ := run(t, "check", "--all", "--snapshot", sample, "--pool", pool)
		return out
	}
	for cidr, name := range map[string]string{"10.0.0.0/24": "10.0.0.0-24", "10.1.0.0/26": "worker-1-10.1.0.0-26"} {
		if got, want := of(cidr), of(name); got != want || !strings.Contains(got, name) {
			t.Errorf("%s: got\n%s\nwant\n%s", cidr, got, want)
		}
	}
}

func TestARunReleasesOnlyWhatIsAskedFor(t *testing.T) {
	would := func(args ...string) (entries int, deletes []string) {
		t.Helper()
		code, out, errs := run(t, append([]string{"run", "--snapshot", sample, "-o", "json"}, args...)...)
		var d document.Run
		if err := json.Unmarshal([]byte(out), &d); err != nil || code != exitLeft {
			t.Fatalf("exit code %d, %v: %s", code, err, errs)
		}
		for _, p := range d.Patches {
			entries += (len(p.Operations) - 1) / 2
		}
		return entries, d.Deletes
	}
	if entries, deletes := would("--pool", "10.0.0.0-24", "--reason", "PodGone"); entries != 1 || len(deletes) != 1 {
		t.Errorf("would release %d entries, %v", entries, deletes)
	}
	if entries, deletes := would("--address", "10.0.0.26"); entries != 1 || !slices.Equal(deletes, []string{"kube-system/10.0.0.26"}) {
		t.Errorf("would release %d entries, %v", entries, deletes)
	}
}

func TestJSONPathAndNamesAreForScripts(t *testing.T) {
	_, out, errs := run(t, "check", "--snapshot", sample, "-o", "jsonpath={.summary.stale} {.allocations[?(@.reason=='PodFinished')].ip}")
	if out != "9 10.0.0.23" {
		t.Errorf("got %q, %s", out, errs)
	}
}
