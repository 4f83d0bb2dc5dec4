package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/planfile"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// releaseOnATerminal is what release shows of a snapshot, as if that were a cluster, to a person who says no.
func releaseOnATerminal(t *testing.T, override string, args ...string) string {
	t.Helper()
	std, shown := terminalWith(t, "n\n")
	o, r := releasing(t, std, override, args...)
	if override != "" {
		check(t, o.assert(t.Context(), r))
	}
	o.DryRun = false
	if err := o.consent(t.Context(), r); !errors.Is(err, errUnresolved) {
		t.Errorf("%v: %v", args, err)
	}
	return shown()
}

// planAndApply plans releases of the sample, and applies them after changes as if each write succeeded.
func planAndApply(t *testing.T) (planned, question, applied string) {
	t.Helper()
	dir := withNamespace(t)
	file := filepath.Join(t.TempDir(), "plan.json")
	begin := func(component, answer string) (*options, func() string) {
		std, shown := terminalWith(t, answer)
		o := &options{streams: std, component: component}
		o.ByHand = true
		f := (&cobra.Command{}).Flags()
		o.add(f, "warn")
		o.AddConfirmAfter(f)
		o.snapshot = dir
		return o, func() string {
			return strings.NewReplacer(dir, "SNAPSHOT", file, "plan.json").Replace(shown())
		}
	}
	o, shownPlan := begin("plan", "")
	o.output, o.filter.Reasons = "table", []string{"PodReplaced", "PodGone", "SandboxStopped", "NodeDead"}
	check(t, o.plan(t.Context(), file))
	p, err := planfile.Read([]byte(contents(t, filepath.Dir(file))["plan.json"]))
	check(t, err)
	// The end of a sandbox is not reported any more, an allocation cannot be parsed, and one is of another sandbox.
	edit(t, dir, "sandboxreports.yaml", strings.Repeat("16", 32), strings.Repeat("e", 64))
	edit(t, dir, "ippools.yaml", "podref: default/db-0", "podref: db-0")
	edit(t, dir, "ippools.yaml", strings.Repeat("15", 32), strings.Repeat("f", 64))
	o, shownQuestion := begin("apply", "n\n")
	r, j, err := o.judge(t.Context())
	if err == nil {
		err = p.Check("uid-1", j.Observation.Now, 24*time.Hour)
	}
	check(t, err)
	o.writes, o.filter.Has, r.Options.Only = true, p.Has, p.Allows
	if err := o.askToRun(t.Context(), r); !errors.Is(err, errUnresolved) {
		t.Error(err)
	}
	o, shownApply := begin("apply", "")
	out, err := dryRunOf(t.Context(), r)
	check(t, err)
	for _, x := range out.Refused {
		out.Released = append(out.Released, x.Item)
	}
	out.Refused = nil
	p.Complete(out)
	d := view.NewRunReport(out, false, view.Filter{Has: p.Has})
	if err := o.printRun(t.Context(), out, d); !errors.Is(err, errUnresolved) {
		t.Error(err)
	}
	return shownPlan(), shownQuestion(), shownApply()
}

func terminalOfRecover(t *testing.T) string {
	t.Helper()
	std, shown := terminalWith(t, "n\n")
	o, r := asker(t, sample, std)
	if err := o.askToRecover(t.Context(), r); !errors.Is(err, errUnresolved) {
		t.Error(err)
	}
	return shown()
}

// What a person reads before an answer, and after it.
func TestTerminal_Golden(t *testing.T) {
	plan, question, applied := planAndApply(t)
	std, shown := terminalWith(t, "n\n")
	dir := copySample(t)
	pausePool(t, dir)
	o, r := asker(t, dir, std)
	o.filter.Verdicts = []judge.Verdict{judge.Stale}
	if err := o.askToRun(t.Context(), r); !errors.Is(err, errUnresolved) {
		t.Error(err)
	}
	recovery := terminalOfRecover(t)
	all := ""
	for _, c := range []struct{ name, text string }{
		{"run, with a paused pool", strings.ReplaceAll(shown(), dir, "SNAPSHOT")},
		{"release", releaseOnATerminal(t, "", "10.0.0.20", "10.0.0.7")},
		{"release with an assertion", releaseOnATerminal(t, "NodeUnreachable", "10.0.0.11")},
		{"release of what is Held", releaseOnATerminal(t, "", "10.0.0.8")},
		{"recover", recovery}, {"plan", plan}, {"apply", question}, {"what apply did", applied},
	} {
		all += fmt.Sprintf("=== %s\n%s\n", c.name, c.text)
	}
	golden(t, "terminal.txt", strings.ReplaceAll(all, sample, "SNAPSHOT"))
}
