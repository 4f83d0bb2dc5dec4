package advice

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

func advisor() Advisor { return Advisor{Program: "ip-reconcile", Namespace: "kube-system"} }

// known has a name for every place.
func known() Facts {
	return Facts{Address: "10.0.0.7", Pool: "kube-system/10.0.0.0-24", Reservation: "kube-system/10.0.0.7", Pod: "default/web-0", Container: "c0ffee",
		Nodes: []string{"worker-1"}, DownNodes: []string{"worker-1"}, OtherPod: "default/web-1", OtherContainer: "beef", OtherNode: "worker-2",
		Restored: "2026-11-20T10:00:00Z"}
}

// all are the steps of every cause.
func all(t *testing.T, f Facts) map[string][]Step {
	t.Helper()
	a, steps := advisor(), map[string][]Step{}
	for _, name := range judge.ReasonNames() {
		var reason judge.Reason
		if err := reason.UnmarshalText([]byte(name)); err != nil {
			t.Fatal(err)
		}
		for _, verdict := range []judge.Verdict{judge.InUse, judge.Held, judge.Stale} {
			of := a.OfReason(verdict, reason, f)
			if verdict == judge.Stale {
				of = append(of, a.Release(f, true)...)
			}
			steps[verdict.String()+" "+name] = of
		}
	}
	for _, why := range reconciler.Refusals() {
		steps["refusal "+string(why)] = a.OfGate(reconciler.Gate{Why: why}, f)
	}
	steps["refusal Paused pool"] = a.OfGate(reconciler.Gate{Why: reconciler.Paused, Pool: "kube-system/10.0.0.0-24"}, f)
	for _, kind := range judge.Kinds() {
		steps["finding "+string(kind)] = a.OfFinding(kind, true, f)
	}
	steps["finding Unrecorded without a sandbox"] = a.OfFinding(judge.Unrecorded, false, f)
	return steps
}

func TestEveryReasonRefusalAndFindingHasAdvice(t *testing.T) {
	staleOnly := []string{"PodReplaced", "PodFinished", "SandboxReplaced", "SandboxStopped", "PodGone"}
	for cause, steps := range all(t, known()) {
		verdict, reason, _ := strings.Cut(cause, " ")
		if len(steps) == 0 && (verdict == "Stale" || !slices.Contains(staleOnly, reason)) {
			t.Errorf("nothing is said about %s", cause)
		}
	}
}

func TestEveryPlaceInAdviceIsFilled(t *testing.T) {
	place := regexp.MustCompile(`\{[a-z]+\}`)
	for name, f := range map[string]Facts{"all is known": known(), "nothing is known": {}, "an address alone is known": {Address: "10.0.0.7"}} {
		for cause, steps := range all(t, f) {
			for _, s := range steps {
				if place.MatchString(s.Why + s.Command + s.OnNode) {
					t.Errorf("%s, %s: %+v", name, cause, s)
				}
				if s.Why == "" || strings.Contains(s.Command, "= ") || strings.Contains(s.Command, "  ") || strings.HasSuffix(s.Command, "=") && !strings.HasSuffix(s.Command, "-") {
					t.Errorf("%s, %s: something is missing in %+v", name, cause, s)
				}
			}
		}
	}
}

func TestAllThatIsKnownIsWrittenAndNothingElse(t *testing.T) {
	f := Facts{Address: "10.0.0.7", Nodes: []string{"worker-1"}}
	for _, s := range advisor().OfReason(judge.Held, judge.PhantomPod, f) {
		if strings.Contains(s.Command, "crictl") {
			t.Errorf("a sandbox that is not known is to be ended: %+v", s)
		}
	}
	f.Container = "c0ffee"
	var commands []string
	for _, s := range advisor().OfReason(judge.Held, judge.PhantomPod, f) {
		if s.Command != "" {
			commands = append(commands, s.OnNode+": "+s.Command)
		}
	}
	if want := []string{"worker-1: crictl inspectp c0ffee", "worker-1: crictl stopp c0ffee && crictl rmp c0ffee"}; !slices.Equal(commands, want) {
		t.Errorf("got %q, want %q", commands, want)
	}
}

// A report's ids and names are whatever a runtime or an agent says, and commands are copied.
func TestANameThatAShellWouldRunIsQuotedOrLeftOut(t *testing.T) {
	for text, want := range map[string]string{
		"c0ffee":            "crictl inspectp c0ffee",
		"a; reboot":         "crictl inspectp 'a; reboot'",
		"$(reboot)":         "crictl inspectp '$(reboot)'",
		"a'; reboot; 'b":    "",
		"--runtime=/tmp/x":  "",
		"a\nreboot":         "",
		"a\x1b[2Jreboot":    "",
		"`reboot` && \"x\"": "crictl inspectp '`reboot` && \"x\"'",
	} {
		got := ""
		for _, s := range advisor().OfReason(judge.Held, judge.PhantomPod, Facts{Container: text, Nodes: []string{"worker-1"}}) {
			if strings.Contains(s.Command, "inspectp") {
				got = s.Command
			}
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestOfManyNodesTheFirstHaveCommandsAndAllAreNamed(t *testing.T) {
	f := Facts{Nodes: []string{"w1", "w2", "w3", "w4", "w5"}}
	text, logs := "", 0
	for _, s := range advisor().OfFinding(judge.NoFreshReportFinding, false, f) {
		text += s.Why + "\n"
		if strings.Contains(s.Command, "logs") {
			logs++
		}
	}
	if logs != nodesShown || !strings.Contains(text, "The same for 2 more: w4, w5.") {
		t.Errorf("%d logs:\n%s", logs, text)
	}
}

func TestANodeIsGivenUpOnlyWithAWarningAndOnlyIfItIsDown(t *testing.T) {
	risky := regexp.MustCompile(`taint nodes \S+ \S+=|delete node|` + judge.AcknowledgedAnnotation)
	f := known()
	for cause, steps := range all(t, f) {
		for _, s := range steps {
			if risky.MatchString(s.Command) && !strings.HasPrefix(s.Why, "WARNING") {
				t.Errorf("%s: no warning before %q", cause, s.Command)
			}
		}
	}
	f.DownNodes = nil
	for cause, steps := range all(t, f) {
		for _, s := range steps {
			if strings.Contains(s.Command, "out-of-service=") || strings.Contains(s.Command, "delete node") {
				t.Errorf("%s: a node that is Ready is given up: %q", cause, s.Command)
			}
		}
	}
}

func TestCommandsNameTheClusterThatWasAskedAbout(t *testing.T) {
	a := advisor()
	a.ClusterFlag("kubeconfig", "/home/me/my config")
	a.Flag("agents", "required")
	steps := a.OfFinding(judge.NoFreshReportFinding, false, known())
	want := "kubectl --kubeconfig='/home/me/my config' logs -n kube-system --tail=50 $(kubectl --kubeconfig='/home/me/my config' get pods"
	if !slices.ContainsFunc(steps, func(s Step) bool { return strings.HasPrefix(s.Command, want) }) {
		t.Errorf("%+v", steps)
	}
	steps = a.Release(known(), false)
	if want := "ip-reconcile run --pool=kube-system/10.0.0.0-24 --address=10.0.0.7 --kubeconfig='/home/me/my config' --agents=required"; steps[1].Command != want {
		t.Errorf("got %q, want %q", steps[1].Command, want)
	}
}

func TestAPodIsNotDeletedForASandboxThatMayNotBeIts(t *testing.T) {
	f := known()
	f.Container = "box-1"
	for _, s := range advisor().OfFinding(judge.Unrecorded, false, f) {
		if strings.Contains(s.Command, "delete pod") {
			t.Errorf("it is advised: %s", s.Command)
		}
	}
	f.Container = ""
	if steps := advisor().OfFinding(judge.Unrecorded, false, f); len(steps) != 1 || !strings.Contains(steps[0].Command, "delete pod") {
		t.Errorf("of a pod whose sandbox is not known: %+v", steps)
	}
}
