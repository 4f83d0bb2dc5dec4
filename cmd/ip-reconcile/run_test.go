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

func TestAFilterThatNamesNothingIsAnErrorAndNotEverything(t *testing.T) {
	for _, c := range []struct{ flag, says string }{
		{"--pool=", "--pool is empty"}, {"--address=", "--address is empty"}, {"--pool=,", "--pool is empty"}, {"--pod-namespace=", "--pod-namespace is empty"}, {"--on-node=", "--on-node is empty"},
		{"--verdict=", "--verdict is empty"}, {"--reason=", "--reason is empty"}, {"--fail-on=", "--fail-on is empty"},
		{"--pool=10.0.0.0-24,10.0.0.0-42", `--pool "10.0.0.0-42": there is no such pool`}, {"--pool=10.0.0.0/23", `--pool "10.0.0.0/23": there is no such pool`},
		{"--pod-namespace=nope", `--pod-namespace "nope": it has no pods`}, {"--on-node=nope", `--on-node "nope": there is no such node`},
	} {
		for _, command := range []string{"check", "run"} {
			code, _, errs := run(t, command, "--snapshot", copySample(t), "--log-level", "error", c.flag)
			if code != exitFailed || !strings.Contains(errs, c.says) {
				t.Errorf("%s %s: exit code %d, %s", command, c.flag, code, errs)
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

func TestAfterARunTheFindingsAreThoseThatAreLeft(t *testing.T) {
	dir := copySample(t)
	_, out, _ := run(t, "run", "--repair", "--snapshot", dir)
	_, after, _ := run(t, "check", "--snapshot", dir)
	left := func(text string) (findings []string) {
		_, section, _ := strings.Cut(text, "\nFINDINGS")
		for line := range strings.Lines(section) {
			if strings.TrimSpace(line) == "" {
				break
			}
			findings = append(findings, line)
		}
		return findings[1:]
	}
	if got, want := left(out), left(after); !slices.Equal(got, want) {
		t.Errorf("the run says\n%s\nthe check after it\n%s", got, want)
	}
	if strings.Contains(out, "Unrecorded  ") || !strings.Contains(out, "REPAIRED (5)") {
		t.Error(out)
	}
}

func TestARunReleasesOnlyWhatIsAskedFor(t *testing.T) {
	dir := copySample(t)
	code, out, errs := run(t, "run", "--snapshot", dir, "--pool", "10.0.0.0-24", "--reason", "PodGone", "-o", "json")
	var d document.Run
	if err := json.Unmarshal([]byte(out), &d); err != nil || code != exitClean {
		t.Fatalf("exit code %d, %v: %s", code, err, errs)
	}
	if len(d.Released) != 2 || len(d.Failed) != 0 {
		t.Errorf("released %v, failed %v", d.Released, d.Failed)
	}
	_, out, _ = run(t, "check", "--snapshot", dir, "--verdict", "stale", "-o", "name")
	if got := strings.Fields(out); slices.Contains(got, "10.0.0.27") || len(got) != 8 {
		t.Errorf("stale is still %v", got)
	}
	_, out, _ = run(t, "run", "--snapshot", dir, "--address", "10.0.0.26", "-o", "json")
	if d = (document.Run{}); json.Unmarshal([]byte(out), &d) != nil || len(d.Released) != 2 {
		t.Errorf("released %v", d.Released)
	}
	refused(t, []string{"run", "--snapshot", dir, "--address", "10.0.0"}, []string{"--address"})
}

func TestJSONPathAndNamesAreForScripts(t *testing.T) {
	_, out, errs := run(t, "check", "--snapshot", sample, "-o", "jsonpath={.summary.stale} {.allocations[?(@.reason=='PodFinished')].ip}")
	if out != "9 10.0.0.23" {
		t.Errorf("got %q, %s", out, errs)
	}
	refused(t, []string{"check", "--snapshot", sample, "-o", "jsonpath={.a"}, []string{"--output", "unclosed action"})
	refused(t, []string{"check", "--snapshot", sample, "-o", "jsonpath"}, []string{"--output jsonpath", "{.summary.stale}"})
}
