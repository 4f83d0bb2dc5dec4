package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const twoClusters = "../../samples/two-clusters/"

// The golden file has what check prints of two snapshots.
func TestCompare_Golden(t *testing.T) {
	version := regexp.MustCompile(`("?toolVersion"?: ).*`)
	all := ""
	for _, command := range []string{"--snapshot $TWO/east --snapshot $TWO/west",
		"--snapshot $TWO/west --snapshot $TWO/east --same-network west/default/fast=east/storage --no-headers",
		"--snapshot $TWO/east --snapshot $TWO/west --same-network east/backup=west/backup -o name",
		"--snapshot $TWO/east --snapshot $TWO/west --now 2026-11-20T10:00:05Z -o yaml",
		"--snapshot $TWO/east --snapshot $TWO/east/cluster.yaml -o jsonpath={.answer}{.clusters[*].label}"} {
		args := strings.Fields(strings.ReplaceAll("check "+command, "$TWO/", twoClusters))
		code, out, errs := run(t, args...)
		out = version.ReplaceAllString(strings.ReplaceAll(out, twoClusters, "$TWO/"), "${1}VERSION,")
		all += fmt.Sprintf("$ ip-reconcile check %s\n%s%sexit code %d\n\n", command, out, errs, code)
	}
	golden(t, "compare.txt", all)
}

// The exit code is 0 only where nothing is in both and everything is known.
func TestCompare_ExitCode(t *testing.T) {
	east, err := os.ReadFile(twoClusters + "east/cluster.yaml")
	check(t, err)
	dir := t.TempDir()
	other := func(name string, replace ...string) string {
		path := filepath.Join(dir, name)
		write(t, path, strings.NewReplacer(replace...).Replace(string(east)))
		return path
	}
	lacking := other("lacking.yaml", `"bond0"`, `"bond7"`, `"br1"`, `"br7"`, "podref: default/backup-0",
		"podref: lost/backup-0")
	for _, c := range []struct {
		says, path string
		want       int
	}{
		{"the same masters", other("same.yaml"), exitUnresolved},
		{"other masters", other("other.yaml", `"bond0"`, `"bond7"`, `"br1"`, `"br7"`), exitClean},
		{"a master that is not named", other("none.yaml", `, "master": "bond0"`, "", `"br1"`, `"br7"`), exitUnresolved},
		{"other masters, and no reports", other("reports.yaml", `"bond0"`, `"bond7"`, `"br1"`, `"br7"`,
			"SandboxReport", "Other", "report-hash", "other"), exitUnresolved},
		{"other masters, and no pods of a namespace", lacking, exitUnresolved},
		{"other masters, and all pods", lacking + " --pods-complete", exitClean},
	} {
		args := append([]string{"check", "--snapshot", twoClusters + "east", "--snapshot"}, strings.Fields(c.path)...)
		code, out, errs := run(t, args...)
		if code != c.want {
			t.Errorf("%s: exit code %d, want %d: %s%s", c.says, code, c.want, out, errs)
		}
	}
	code, _, errs := run(t, "check", "--snapshot", twoClusters+"east", "--snapshot", filepath.Join(dir, "none"))
	if code != exitFailed || !strings.Contains(errs, "none: read snapshot") {
		t.Errorf("a snapshot that does not exist: exit code %d, %s", code, errs)
	}
}

// Two folders of one name have their paths for labels.
func TestCompare_Labels(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{"x/east", "x/west.tgz", "east west.tgz"}, {"x/dump", "y/dump/", "x/dump y/dump/"}, {"-", "x/dump", "stdin dump"},
	} {
		if got := strings.Join(labels([]string{c.a, c.b}), " "); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
