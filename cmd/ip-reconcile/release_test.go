package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/planfile"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// terminalWith is a terminal on which a person answers, and what it shows.
func terminalWith(t *testing.T, answer string) (std streams, shown func() string) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "terminal"))
	check(t, err)
	t.Cleanup(func() { f.Close() })
	d := display{columns: 100}
	return streams{out: f, err: f, in: strings.NewReader(answer), outDisplay: d, errDisplay: d}, func() string {
		text, err := os.ReadFile(f.Name())
		check(t, err)
		return string(text)
	}
}

// asking are the answers to a question, and whether they are consent.
var asking = map[string]bool{"y\n": true, "Yes\n": true, "y": true, "\n": false, "": false, "n\n": false, "ye\n": false}

// asker are the options of a run on a terminal, and its reconciler.
func asker(t *testing.T, dir string, std streams) (*options, *reconciler.Reconciler) {
	t.Helper()
	o := &options{streams: std, component: "run"}
	f := (&cobra.Command{}).Flags()
	o.addLive(f, "warn")
	o.AddConfirmAfter(f)
	o.snapshot = dir
	r, _, err := o.reconciler(t.Context())
	check(t, err)
	o.writes = true // as if the snapshot were a cluster
	return o, r
}

func TestRun_AsksAboutNothingPaused(t *testing.T) {
	dir := copySample(t)
	pauseEverything(t, dir)
	std, shown := terminalWith(t, "y")
	o, r := asker(t, dir, std)
	if err := o.askToRun(t.Context(), r); err != nil || strings.Contains(shown(), "Release") {
		t.Errorf("%v:\n%s", err, shown())
	}
}

func TestRun_AsksOnATerminal(t *testing.T) {
	for answer, want := range asking {
		std, shown := terminalWith(t, answer)
		o, r := asker(t, sample, std)
		err := o.askToRun(t.Context(), r)
		_, after, isAsked := strings.Cut(shown(), "\nRelease 9 stale items? [y/N] ")
		if no := "Nothing was released.\n"; (err == nil) != want || !isAsked || want && after != "" || !want && after != no {
			t.Errorf("%q: %v:\n%s", answer, err, shown())
		}
	}
}

// releasing are the options of release, which has judged what the arguments select of the sample, and its reconciler.
func releasing(t *testing.T, std streams, override string, args ...string) (*byHand, *reconciler.Reconciler) {
	t.Helper()
	o := &byHand{options: options{streams: std, component: "release"}, override: override}
	if o.ByHand = true; override != "" {
		o.Because = "it was scrapped"
	}
	o.addWithoutNode((&cobra.Command{}).Flags(), "warn")
	o.snapshot = sample
	r, _, err := o.reconciler(t.Context())
	if err == nil {
		err = o.parse(args)
	}
	if err == nil {
		err = o.check(t.Context(), r)
	}
	check(t, err)
	return o, r
}

func TestRelease_AsksOnATerminal(t *testing.T) {
	for name, c := range map[string]struct {
		args           []string
		override       string
		dryRun, yes    bool
		question, says string
	}{
		"stale":                {args: []string{"10.0.0.20"}, question: "Release 1 of 1 item? [y/N] "},
		"stale and held":       {args: []string{"10.0.0.20", "10.0.0.7"}, question: "Release 1 of 2 items? [y/N] "},
		"unconfirmed":          {args: []string{"10.1.0.4"}, question: "Release 1 of 1 item? [y/N] "},
		"held":                 {args: []string{"10.0.0.7"}, says: "Nothing that was selected can be released.\n"},
		"a dry run":            {args: []string{"10.0.0.20"}, dryRun: true, says: "nothing is released. 1 of 1 item"},
		"consent by a flag":    {args: []string{"10.0.0.20"}, yes: true},
		"a person's assertion": {args: []string{"10.0.0.11"}, override: "NodeUnreachable", question: "(1 because you assert"},
	} {
		for answer, want := range asking {
			std, shown := terminalWith(t, answer)
			if c.question != "" { // as in 'release > file'
				std.out, _ = os.Create(filepath.Join(t.TempDir(), "out"))
			}
			o, r := releasing(t, std, c.override, c.args...)
			var err error
			if c.override != "" {
				err = o.assert(t.Context(), r)
			}
			if err != nil || len(o.selected) != len(c.args) || len(o.missing) > 0 {
				t.Fatal(err, o.selected, o.missing)
			}
			o.DryRun, o.yes = c.dryRun, c.yes
			err = o.consent(t.Context(), r)
			want = want && c.question != "" || c.yes
			if (err == nil) != want || !strings.Contains(shown(), c.question+c.says) ||
				!strings.Contains(shown(), c.args[0]+" in kube-system/") ||
				strings.Contains(shown(), "[y/N]") != (c.question != "") {
				t.Errorf("%s: %q: %v:\n%s", name, answer, err, shown())
			}
		}
	}
}

// Without consent nothing is even read: neither a cluster nor a plan.
func TestWrites_NeedConsentWithoutATerminal(t *testing.T) {
	t.Parallel() // it waits
	plan := filepath.Join(t.TempDir(), "plan.json")
	write(t, plan, fmt.Sprintf(`{"apiVersion": %q, "kind": "Plan", "items": []}`, view.APIVersion))
	for _, args := range [][]string{{"run"}, {"apply", plan}, {"release", "10.0.0.20"}, {"recover"}} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			args := append(args, "--kubeconfig", kubeconfigOf(t, "https://"+nobody))
			want := "ip-reconcile: nothing was done: without a terminal to ask on, " + args[0] + " needs --yes\n"
			if code, out, errs := run(t, args...); code != exitFailed || out != "" || errs != want {
				t.Errorf("exit code %d, %q, %q", code, out, errs)
			}
			for _, consent := range []string{"--yes", "--dry-run"} {
				if args[0] == "apply" && consent == "--dry-run" {
					continue
				}
				if code, _, errs := run(t, append(args, consent)...); code != exitFailed || strings.Contains(errs, "--yes") {
					t.Errorf("%s: exit code %d, %q", consent, code, errs)
				}
			}
		})
	}
}

// recover asks about what it would write, and about the Leases if that is nothing so far.
func TestRecover_AsksOnATerminal(t *testing.T) {
	for answer, want := range asking {
		std, shown := terminalWith(t, answer)
		o, r := asker(t, sample, std)
		err := o.askToRecover(t.Context(), r)
		_, after, isAsked := strings.Cut(shown(), "\nRepair 3 findings? [y/N] ")
		if no := "Nothing was written.\n"; (err == nil) != want || !isAsked || want && after != "" || !want && after != no {
			t.Errorf("%q: %v:\n%s", answer, err, shown())
		}
	}
	for withoutLease, question := range map[bool]string{
		false: "Hold all ADDs and DELs, and write what the nodes report meanwhile, nothing so far? [y/N] ",
		true:  "Write what the nodes report, nothing so far? [y/N] ",
	} {
		std, shown := terminalWith(t, "y")
		dir := copySample(t)
		pauseEverything(t, dir)
		o, r := asker(t, dir, std)
		o.WithoutLease = withoutLease
		if err := o.askToRecover(t.Context(), r); err != nil || !strings.Contains(shown(), "\n"+question) {
			t.Errorf("%v:\n%s", err, shown())
		}
	}
}

// Only a command that writes, to a cluster and without --dry-run, is no dry run.
func TestOptions_DryRun(t *testing.T) {
	for _, c := range []struct {
		writes           bool
		dryRun, snapshot string
		want             bool
	}{
		{true, "", "", false}, {true, "none", "", false}, {true, "client", "", true}, {true, "true", "", true},
		{true, "", sample, true}, {false, "", "", true}, {false, "none", "", true},
	} {
		std, _ := terminalWith(t, "")
		o := &options{streams: std, component: "run", writes: c.writes}
		f := (&cobra.Command{}).Flags()
		o.addLive(f, "warn")
		check(t, f.Set("kubeconfig", kubeconfigOf(t, "https://"+nobody)))
		o.dryRun, o.snapshot = c.dryRun, c.snapshot
		r, _, err := o.reconciler(t.Context()) // RBAC may hide the reconciler
		if o.DryRun != c.want || o.writes == c.want || err == nil && r.Options.DryRun != c.want {
			t.Errorf("%+v: %v, %v", c, o.DryRun, err)
		}
	}
}

// Nothing runs without consent.
func TestAct_Consent(t *testing.T) {
	std, _ := terminalWith(t, "")
	o, r := asker(t, sample, std)
	list := 0
	r.Source = counting{r.Source, &list}
	for _, want := range []error{errUnresolved, nil} {
		_, err := o.act(t.Context(), r, func(context.Context, *reconciler.Reconciler) error { return want })
		if !errors.Is(err, want) || (list > 0) != (want == nil) {
			t.Errorf("%v: %v, read %d times", want, err, list)
		}
	}
}

type counting struct {
	reconciler.Source
	n *int
}

func (c counting) List(ctx context.Context) (*facts.Observation, error) {
	*c.n++
	return c.Source.List(ctx)
}

// An answer that does not come keeps nobody from ending the command.
func TestAsk_EndsWithTheContext(t *testing.T) {
	std, _ := terminalWith(t, "")
	in, _, err := os.Pipe()
	check(t, err)
	defer in.Close()
	std.in = in
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if std.ask(ctx, "Release?") {
		t.Error("no answer is consent")
	}
}

// Only what was selected is asserted, and only for the reason that was printed.
func TestRelease_Asserts(t *testing.T) {
	for _, c := range []struct {
		arg, override string
		want          int
	}{
		{"10.0.0.11", "NodeUnreachable", 1}, {"10.0.0.11", "NoFreshReport", 0}, {"10.0.0.10", "NoFreshReport", 1},
		{"10.1.0.1", "NetworkStatusMissing", 1}, {"10.0.0.7", "StuckTerminating", 0}, {"10.0.0.4", "PhantomPod", 0},
		{"10.0.0.8", "Attached", 0}, {"10.0.0.41", "ClaimedByOther", 0}, {"10.0.0.51", "NoFreshReport", 1},
		{"10.0.0.20", "PodReplaced", 0}, {"10.0.0.2", "SandboxReady", 0},
	} {
		std, _ := terminalWith(t, "")
		o, r := releasing(t, std, c.override, c.arg)
		if err := o.assert(t.Context(), r); (err == nil) != (c.want > 0) || len(r.Options.Overrides) != c.want {
			t.Errorf("%s: %v, %v", c.arg, err, r.Options.Overrides)
		}
		for _, reason := range r.Options.Overrides {
			if reason != judge.Reason(c.override) {
				t.Errorf("%s is overridden for %s", c.arg, reason)
			}
		}
	}
}

func TestRelease_BecauseIsBounded(t *testing.T) {
	for n, want := range map[int]bool{longestBecause: true, longestBecause + 1: false} {
		o := &byHand{override: "NodeUnreachable"}
		o.Because = strings.Repeat("a ", n)[:n]
		if err := o.parse([]string{"10.0.0.20"}); (err == nil) != want {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// The question to a person is no refusal of the history.
func TestDryRun_RecordsNothing(t *testing.T) {
	std, _ := terminalWith(t, "")
	o, r := asker(t, sample, std)
	r.Options.ByHand = true
	r.OnOutcome = func(o reconciler.Outcome) { t.Errorf("recorded: %+v", o) }
	if err := o.askToRun(t.Context(), r); !errors.Is(err, errUnresolved) {
		t.Error(err)
	}
}

// A file cannot move the terminal's cursor by what an error quotes of it.
func TestApply_QuotesNoEscapes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plan.json")
	plan := fmt.Sprintf(`{"apiVersion": %q, "kind": "Plan", "toolVersion": "\u001b[2J", "items": [{"ip": "\u001b[1A"}]}`,
		view.APIVersion)
	check(t, os.WriteFile(file, []byte(plan), 0o600))
	code, _, errs := run(t, "apply", file)
	if code != exitFailed || !strings.Contains(errs, "[1A in ") || strings.Contains(errs, "\x1b") {
		t.Errorf("exit code %d: %q", code, errs)
	}
}

// A run releases what is proven of the selected items, and what is Stale by the evidence that the person has read.
func TestRelease_IsOfWhatWasPrinted(t *testing.T) {
	usual := judge.ID{Object: "kube-system/10.0.0.0-24", Key: "5", ContainerID: "box-1", PodRef: "default/web-0",
		IfName: "net1"}
	override := Asserted(usual, judge.NoFreshReportReason)
	gone, absent := All(UsualPool, Node("worker-1")), All(UsualPool, ReportingWorker())
	running := All(gone, UsualPod(Carrying("10.0.0.5")))
	proven := All(UsualPool, ReportingWorker(Gone("box-1", UsualUID)))
	silent := func(nodes ...string) Part {
		all := UsualPool
		for _, node := range nodes {
			all = All(all, Node(node), StaleReport(node))
		}
		return all
	}
	for says, c := range map[string]struct {
		printed, now Part
		want         bool
	}{
		"as printed":                               {gone, gone, true},
		"it was in use, and its pod is gone now":   {running, gone, false},
		"it was in use, and is proven now":         {running, proven, true},
		"it was proven, and is not any more":       {proven, absent, false},
		"it was unconfirmed, and is proven now":    {absent, proven, true},
		"asserted as printed":                      {silent("worker-1"), silent("worker-1"), true},
		"another node is silent, too":              {silent("worker-1"), silent("worker-1", "worker-2"), false},
		"what was asserted needs no assertion now": {silent("worker-1"), gone, false},
		"it is in use now":                         {gone, running, true}, // refused in the person's name
		"another sandbox": {gone, All(Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-0", "box-2", "net1")),
			Node("worker-1")), false},
	} {
		judged := func(p Part) *judge.Item {
			return AllocationOf(t, Judged(Observe(p, override), facts.Policy{}), "10.0.0.5")
		}
		if got := isAgreed(planfile.Of([]*judge.Item{judged(c.printed)}), judged(c.now)); got != c.want {
			t.Errorf("%s: %v, want %v", says, got, c.want)
		}
	}
}

// What a person selected is released, refused, or gone from the pool by then; the output says which.
func TestRelease_SaysWhatBecameOfEachItem(t *testing.T) {
	pool := func(entries ...Allocation) Part { return Pool("10.0.0.0-24", "10.0.0.0/24", entries...) }
	stale, second := Alloc("5", "default/gone", "box-1", "net1"), Alloc("6", "default/gone", "box-2", "net1")
	printed := All(pool(stale, second), Node("worker-1"))
	for says, c := range map[string]struct {
		now                 Part
		releases, refuses   int // of the items
		want                bool
		refusal, notRecored string
	}{
		"all is released":      {now: printed, releases: 2},
		"one is refused":       {now: printed, releases: 1, refuses: 1, want: true},
		"one was contradicted": {now: printed, releases: 1, want: true, refusal: "it changed at the second check"},
		"a DEL was first":      {now: All(pool(stale), Node("worker-1")), releases: 1, notRecored: "1 of 2 items are not"},
		"an ADD has the address": {now: All(pool(stale, Alloc("6", "default/new", "box-3", "net1")), Node("worker-1")),
			releases: 1, notRecored: "1 of 2 items are not"},
	} {
		o := &byHand{selected: Judged(Observe(printed), facts.Policy{}).Allocations}
		out := &reconciler.Result{Assessment: Judged(Observe(c.now), facts.Policy{})}
		out.Released = out.Allocations[:c.releases]
		for _, it := range out.Allocations[c.releases : c.releases+c.refuses] {
			out.Refused = append(out.Refused, plan.Refused{Item: it, Gate: plan.Gate{Why: plan.WriteFailed}})
		}
		remains, warnings := o.complete(out), strings.Join(out.Observation.Warnings, "\n")
		refusal := ""
		if n := len(out.Refused); n > c.refuses {
			refusal = out.Refused[n-1].Detail
		}
		if remains != c.want || !strings.HasPrefix(refusal, c.refusal) || (refusal == "") != (c.refusal == "") ||
			!strings.Contains(warnings, c.notRecored) || strings.Contains(warnings, "not recorded") != (c.notRecored != "") {
			t.Errorf("%s: remains %v, refusal %q, warnings %q", says, remains, refusal, warnings)
		}
	}
}
