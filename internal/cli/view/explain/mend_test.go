package explain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// What cannot be parsed has the patch that mends it, or the command by which a person does.
func TestExplanation_MendsOfWhatIsMalformed(t *testing.T) {
	pool := func(ref, id string) Part { return Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", ref, id, "net1")) }
	wb := NAD("wb", WhereaboutsConfig("10.0.0.0/24", ""))
	for name, c := range map[string]struct {
		ask   string
		parts []Part
		want  []string
	}{
		"an entry whose sandbox a report has": {"10.0.0.5", []Part{pool("?", "box-1"), UsualPod(),
			ReportingWorker(Sandbox("box-1", UsualUID))},
			[]string{`{"op":"test","path":"/spec/allocations/5/id","value":"box-1"},` +
				`{"op":"add","path":"/spec/allocations/5/podref","value":"default/web-0"}`, `"op":"remove"`}},
		"an entry of which nothing is known": {"10.0.0.5", []Part{pool("", "box-1"), Node("worker-1")},
			[]string{`{"op":"test","path":"/spec/allocations/5/id","value":"box-1"},` +
				`{"op":"remove","path":"/spec/allocations/5"}`}},
		"an entry without an id": {"10.0.0.5", []Part{pool("?", ""), Node("worker-1")},
			[]string{"kubectl edit ippools.whereabouts.cni.cncf.io -n kube-system 10.0.0.0-24"}},
		"a pool whose range a definition has": {"pool/10.0.0.0-24", []Part{Pool("10.0.0.0-24", "10.0.0.0"), wb},
			[]string{`{"op":"test","path":"/spec/range","value":"10.0.0.0"},` +
				`{"op":"replace","path":"/spec/range","value":"10.0.0.0/24"}`}},
		"a pool whose range is unknown": {"pool/broken", []Part{Pool("broken", "10.0.0.0"), wb},
			[]string{"kubectl edit ippools.whereabouts.cni.cncf.io -n kube-system broken"}},
		"a reservation": {"10.0.0.7", []Part{UsualPool, RawReservation("10.0.0.7", time.Hour, map[string]any{"podref": "?"})},
			[]string{"delete overlappingrangeipreservations.whereabouts.cni.cncf.io -n kube-system 10.0.0.7"}},
	} {
		d := ask(t, c.ask, nil, c.parts...)
		text := strings.Join(commands(d.Advice), "\n")
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: the commands lack %q:\n%s", name, want, said(d))
			}
		}
		for _, s := range d.Advice {
			isRemoval := strings.Contains(s.Command, `"remove"`) || strings.Contains(s.Command, " delete ")
			if isRemoval && !strings.HasPrefix(s.Why, "WARNING") {
				t.Errorf("%s: no warning before %q", name, s.Command)
			}
		}
	}
}

// Each reason that an item of a random cluster has, and each kind of finding there, has advice with a command, or says
// that nothing is to be done.
func TestExplanation_AdviceOnEverything(t *testing.T) {
	has := map[string]bool{}
	for seed := range Seeds(150) {
		o := Observe(NewRandom(3, seed).Cluster()...)
		j := Judged(o, facts.Policy{})
		subjects := []string{}
		for _, it := range j.Allocations {
			if it.Address().IsValid() {
				subjects = append(subjects, it.Text())
			}
		}
		for _, f := range j.Findings {
			if ip, _, _ := strings.Cut(f.IP, ","); ip != "" {
				subjects = append(subjects, ip)
			}
		}
		slices.Sort(subjects)
		for _, what := range slices.Compact(subjects) {
			d := answered(t, what, j)
			for _, it := range d.Items {
				isSaid := len(it.Advice) > 0 || it.SharesVerdictOf != ""
				has[string(it.Reason)] = true
				if text := fmt.Sprint(it.Advice); !isSaid || it.SharesVerdictOf == "" && len(commands(it.Advice)) == 0 &&
					!strings.Contains(text, "Nothing to do") {
					t.Fatalf("seed %d: %s of %s has no command: %+v", seed, it.Reason, what, it.Advice)
				}
			}
			for _, f := range d.Findings {
				has[string(f.Kind)] = true
			}
			if len(d.Findings) > 0 && len(commands(d.Advice)) == 0 {
				t.Fatalf("seed %d: the findings on %s have no command: %+v", seed, what, d.Findings)
			}
		}
	}
	if len(has) < 25 {
		t.Errorf("only %d reasons and findings were explained", len(has))
	}
}

// Steps that differ by the address alone are printed once.
func TestExplanation_AdviceOnSeveralAddressesIsPrintedOnce(t *testing.T) {
	leaks := Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-0", "box-1", "net1"),
		Alloc("6", "default/web-0", "box-1", "net2"), Alloc("7", "default/web-0", "box-1", "net3"))
	for _, what := range []string{"default/web-0", "pool/10.0.0.0-24"} {
		d := ask(t, what, nil, leaks, Node("worker-1", NotReadyFor(time.Hour)))
		text := strings.Join(commands(d.Advice), "\n")
		if strings.Count(text, "release 10.0.0.5") != 1 || strings.Contains(text, "release 10.0.0.6") ||
			!strings.Contains(fmt.Sprint(d.Advice), "The same for 2 more: 10.0.0.6, 10.0.0.7.") {
			t.Errorf("explain %s:\n%s", what, said(d))
		}
	}
}
