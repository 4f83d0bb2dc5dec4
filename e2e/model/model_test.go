//go:build !slow && !cluster

// Package model checks the release protocol in SPIN: see release.pml.
package model

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// explore lets SPIN explore all orders of the model's steps with some switches, and returns what is violated, "" for
// nothing. recorded orders the steps; it is "" for all orders.
func explore(t *testing.T, recorded string, switches ...string) (violation string) {
	t.Helper()
	if _, err := exec.LookPath("spin"); err != nil && os.Getenv("IP_RECONCILE_REAL") == "" { // .ci/run installs it
		t.Skip("needs Debian's package spin")
	}
	folder, start := t.TempDir(), time.Now()
	model, err := filepath.Abs("release.pml")
	if err = errors.Join(err, os.Symlink(model, folder+"/release.pml"),
		os.WriteFile(folder+"/recorded.pml", []byte(recorded), 0o600)); err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) string {
		c := exec.CommandContext(t.Context(), name, args...)
		c.Dir = folder
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	// A state is known by a hash of 64 bits. A recorded history may end anywhere.
	compile := []string{"-w", "-DVECTORSZ=512", "-DSAFETY", "-DNOCLAIM", "-DHC4"}
	search := []string{"-m1000000", "-w24", "-n"}
	switch {
	case recorded != "":
		search = append(search, "-E")
	case slices.Contains(switches, "-DLIVENESS=1"):
		compile, search = []string{"-w", "-DVECTORSZ=512", "-DNFAIR=3"}, append(search, "-a", "-f")
	case !regexp.MustCompile("NO_|OVERLAP").MatchString(fmt.Sprint(switches)): // there is much to explore
		compile = append(compile, "-O2")
	}
	run("spin", append(switches, "-a", "release.pml")...)
	run("gcc", append(compile, "-o", "pan", "pan.c")...)
	out := run(folder+"/pan", search...)
	numbers := found.FindStringSubmatch(out)
	if numbers == nil || strings.Contains(out, "max search depth too small") {
		t.Fatalf("SPIN did not explore the model:\n%s", out)
	}
	violation = violated.FindString(out)
	t.Logf("%s states, depth %s, %.0f s, violated: %q", numbers[2], numbers[1], time.Since(start).Seconds(), violation)
	return violation
}

// with are switches: how many processes there are, how often each fault may happen, and others.
func with(reconcilers, sandboxes, crashes, expiries, faults, restores int, others ...string) []string {
	return append(strings.Fields(fmt.Sprintf("-DRECONCILERS=%d -DSANDBOXES=%d -DCRASHES=%d -DEXPIRIES=%d -DFAULTS=%d "+
		"-DRESTORES=%d", reconcilers, sandboxes, crashes, expiries, faults, restores)), others...)
}

// TestModel explores the protocol, and breaks it on purpose to see that the model shows it. The last two rows are no
// planted errors: docs/explain/safety.md has them.
func TestModel(t *testing.T) {
	for _, run := range []struct {
		name, violated string // violated is a part of the violated expression
		switches       []string
	}{
		{"two reconcilers", "", with(2, 2, 0, 1, 1, 0)},
		{"one reconciler and every fault", "", with(1, 2, 1, 1, 1, 0)},
		{"an etcd restore", "", with(1, 3, 0, 0, 0, 1, "-DLOST_DELS")},
		{"an etcd restore and other faults", "", with(1, 2, 1, 0, 1, 1, "-DLOST_DELS")},
		{"overlapping ranges and a lost request", "", with(1, 3, 0, 0, 1, 0, "-DOVERLAP")},
		{"overlapping ranges and a killed process", "", with(1, 3, 1, 0, 0, 0, "-DOVERLAP")},
		{"what is stale is released", "", with(1, 2, 1, 0, 1, 0, "-DLIVENESS=1")},
		{"no second check", "sandbox", with(1, 3, 0, 0, 0, 1, "-DLOST_DELS", "-DNO_SECOND_CHECK")},
		{"no put-back", "gap", with(1, 2, 0, 1, 1, 0, "-DNO_PUT_BACK")},
		{"no gate", "sandbox", with(1, 3, 0, 0, 0, 1, "-DLOST_DELS", "-DNO_GATE")},
		{"no fence", "excused", with(1, 3, 0, 0, 0, 1, "-DLOST_DELS", "-DNO_FENCE")},
		{"no expiry", "acceptance cycle", with(1, 2, 1, 0, 0, 0, "-DLIVENESS=1", "-DNO_EXPIRY")},
		{"overlapping ranges and an expired Lease", "excused", with(1, 3, 0, 1, 0, 0, "-DOVERLAP")},
		{"overlapping ranges and two lost requests", "excused", with(1, 3, 0, 0, 2, 0, "-DOVERLAP")},
	} {
		t.Run(run.name, func(t *testing.T) {
			v := explore(t, "", run.switches...)
			if !strings.Contains(v, run.violated) || (v == "") != (run.violated == "") {
				t.Errorf("violated: %q, want %q", v, run.violated)
			}
		})
	}
}

// What SPIN prints, and the lines of a recorded history of the simulator (TestPlan of e2e/sim) that are steps.
var (
	found    = regexp.MustCompile(`(?s)depth reached (\d+), errors: \d+\n\s+(\d+) states, stored`) // by SPIN
	violated = regexp.MustCompile(`pan:1: .*`)
	head     = regexp.MustCompile(`^# .*: address (\S+)`)
	gave     = regexp.MustCompile(`(?m)(\w{6}) of (\S+) on \S+: ADD gave (\S+)$`)
	closed   = regexp.MustCompile(`(\w{6}) of \S+ on \S+: (DEL|closed)$`)
	added    = regexp.MustCompile(`whereabouts-add: PATCH ippools \S+ → 200$`)
	removed  = regexp.MustCompile(`whereabouts-del: DELETE overlappingrangeipreservations \S+/(\S+) → 200$`)
	ours     = regexp.MustCompile(`ip-reconcile-(\d): (DELETE|POST) overlappingrangeipreservations \S+/(\S*) → 20[01]$`)
	wrote    = regexp.MustCompile(`the product (releases|writes back) (\S+) of \S+: \{(\w{6})`)
)

// read returns the steps of a history that concern one address, in the words of release.pml. The model's sandboxes 1
// and 2 are of the pod that had the address first, 3 is of another one.
func read(t *testing.T, path string) (steps []string) {
	t.Helper()
	content, err := os.ReadFile(path)
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	name := head.FindStringSubmatch(lines[0])
	if err != nil || name == nil {
		t.Fatalf("%s: %v", lines[0], err)
	}
	address, first, ofFirst, numbers := name[1], "", 0, map[string]int{}
	for _, line := range lines {
		if m := gave.FindStringSubmatch(line); m != nil && m[3] == address {
			if first = cmp.Or(first, m[2]); m[2] == first {
				ofFirst++
				numbers[m[1]] = ofFirst
			} else {
				numbers[m[1]] = 3
			}
		}
	}
	add := func(what string, whose any) { steps = append(steps, fmt.Sprintf("%s * 8 + %v", what, whose)) }
	deleting, isClosed := "", map[string]bool{}
	for i, line := range lines {
		rest := strings.Join(lines[i+1:], "\n")
		switch {
		case added.MatchString(line): // by the ADD that ends next, because one after the other has the Lease
			if m := gave.FindStringSubmatch(rest); m != nil && m[3] == address {
				add("PATCHED", numbers[m[1]])
			}
		case strings.Contains(line, "etcd is back as it was"):
			add("RESTORED", 0)
		case strings.Contains(line, "etcd is backed up"): // the last backup before a restore counts
			until, _, isRestored := strings.Cut(rest, "etcd is back as")
			if isRestored && !strings.Contains(until, "backed up") {
				add("BACKED_UP", 0)
			}
		}
		if m := gave.FindStringSubmatch(line); m != nil && m[3] == address {
			add("ADDED", numbers[m[1]])
		}
		if m := closed.FindStringSubmatch(line); m != nil && numbers[m[1]] > 0 {
			if deleting = m[1]; m[2] == "closed" && !isClosed[m[1]] {
				add("CLOSED", numbers[m[1]])
			}
		}
		if m := removed.FindStringSubmatch(line); m != nil && m[1] == address {
			add("CLOSED", numbers[deleting])
			isClosed[deleting] = true
		}
		if m := ours.FindStringSubmatch(line); m != nil && (m[3] == address || m[3] == "") {
			add(map[string]string{"DELETE": "DELETED", "POST": "PUT_BACK"}[m[2]], m[1])
		}
		if m := wrote.FindStringSubmatch(line); m != nil && m[2] == address {
			add(map[string]string{"releases": "RELEASED", "writes back": "REPAIRED"}[m[1]], numbers[m[3]])
		}
	}
	return steps
}

// isPath reports whether the steps are a path of the model: SPIN finds the end of the history.
func isPath(t *testing.T, steps []string) bool {
	text := fmt.Sprintf("#define LENGTH %d\nbyte recorded[LENGTH + 1];\ninline load() {\n", len(steps))
	for i, step := range steps {
		text += fmt.Sprintf("\trecorded[%d] = %s;\n", i, step)
	}
	switches := with(2, 3, 1, 1, 0, strings.Count(text, "RESTORED"), "-DTRACE")
	return strings.Contains(explore(t, text+"}\n", switches...), "at<")
}

// TestModel_RecordedHistories shows that the model does what really happens: the writes of recorded histories, in their
// order, are steps of the model. If the last write comes first, they are not.
func TestModel_RecordedHistories(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) < 3 {
		t.Fatalf("recorded histories: %q", paths)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			steps := read(t, path)
			if !isPath(t, steps) {
				t.Errorf("no path of the model: %q", steps)
			}
			if last := len(steps) - 1; isPath(t, slices.Concat(steps[last:], steps[:last])) {
				t.Errorf("a path of the model with the last step first: %q", steps)
			}
		})
	}
}
