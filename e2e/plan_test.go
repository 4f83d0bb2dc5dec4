//go:build !slow && !cluster

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/planfile"
	docs "github.com/ip-reconcile/ip-reconcile/internal/cli/view"
)

// planned is the file of plan.
func (s *stage) planned(t testing.TB, more ...string) (file string, d *docs.Plan) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "plan.json")
	before := s.contents(t)
	args := append([]string{"plan", "--output-file", file, "--kubeconfig", s.Kubeconfig()}, more...)
	out := s.beginProduct(t, args...).wait()
	out.exits(t, 0)
	s.checkReleased(t, before)
	d = &docs.Plan{}
	check(t, json.Unmarshal(try(os.ReadFile(file)).must(t), d))
	if len(d.Items) > 0 {
		contains(t, "what plan prints", out.stdout, "apply -f "+file)
	} else {
		contains(t, "what plan prints", out.stdout, "there is nothing to apply")
	}
	return file, d
}

// appliedPlan runs apply, and returns what became of items by their addresses.
func (s *stage) appliedPlan(t testing.TB, file string, more ...string) (*outcome, map[string]string) {
	t.Helper()
	out, became := s.product(t, append([]string{"apply", file}, more...)...), map[string]string{}
	for _, it := range out.Released {
		became[it.IP] = "Released"
	}
	for _, it := range out.Failed {
		became[it.IP] = it.Refusal + ": " + it.Detail
	}
	return out, became
}

func write(t testing.TB, file string, d any) {
	t.Helper()
	var text bytes.Buffer
	check(t, docs.Write(&text, "json", d))
	check(t, os.WriteFile(file, text.Bytes(), 0o600))
}

// TestPlan_KilledInTheMiddle plans 500 releases, kills apply twice, and comes to the same end as if it had not died.
func TestPlan_KilledInTheMiddle(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	live := s.up(t, "worker-1", "live", blue)
	var places []string
	for i := range 5 {
		name, entries := fmt.Sprintf("10.2.%d.0-24", i), map[string]any{}
		for n := 1; n <= 100; n++ {
			key, ip := fmt.Sprint(n), fmt.Sprintf("10.2.%d.%d", i, n)
			entries[key] = entry("default/gone-"+key, fmt.Sprintf("box-%d-%d", i, n))
			if places = append(places, name+" "+key); i == 0 {
				s.reservation(t, ip, "default/gone-"+key, 0)
				places = append(places, "reservation "+ip)
			}
		}
		s.pool(t, name, strings.Replace(name, "-", "/", 1), entries)
	}
	before := s.contents(t)
	_, d := s.planned(t)
	equal(t, "items while the breaker stands", len(d.Items), 0)
	file, d := s.planned(t, "--allow-mass-release")
	equal(t, "items", len(d.Items), 500)
	out, _ := s.appliedPlan(t, file) // the breaker has not been switched off
	out.exits(t, 1)
	s.checkReleased(t, before)

	pools := map[string]bool{} // which have something to be released
	killed := func(kind string, nth int) {
		t.Helper()
		at := func(writes []string) bool {
			n := 0
			for _, w := range writes {
				if strings.Contains(w, kind) {
					n++
				}
			}
			return n == nth
		}
		k, isKilled := s.kill(t, at, false, "apply", file, "--allow-mass-release")
		if !isKilled {
			t.Fatalf("it was not killed: %v", k.writes)
		}
		clear(pools)
		for place := range s.contents(t) {
			if name, _, _ := strings.Cut(place, " "); strings.HasPrefix(name, "10.2.") {
				pools[name] = true
			}
		}
		if n := len(before) - len(s.contents(t)); n == 0 || n == len(places) {
			t.Errorf("killed at %s: %d are released", k.last, n)
		}
	}
	killed("DELETE overlappingrangeipreservations/", 30)
	killed("PATCH ippools/", len(pools)) // the last one
	out, became := s.appliedPlan(t, file, "--allow-mass-release")
	out.exits(t, 0)
	s.checkReleased(t, before, places...)
	if n := len(became); n == 0 || n == 500 {
		t.Errorf("%d items were released last", n)
	}
	contains(t, "the notes", out.stdout,
		fmt.Sprintf(`"%d of 500 items of the plan are not recorded any more: already released"`, 500-len(became)))
	out, became = s.appliedPlan(t, file)
	out.exits(t, 0)
	equal(t, "released at the end", len(became), 0)
	s.judges(t, at(live), "InUse AddressOnPod")
}

// TestPlan_LessThanPlanned plans from exported files, and applies the plan to the cluster that they are of, which has
// changed.
func TestPlan_LessThanPlanned(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	agent := s.agent(t, "worker-1")
	var pods []*pod
	for _, name := range []string{"released", "deleted", "runs", "returns", "rewritten", "paused"} {
		net := blue
		if name == "paused" {
			net = simple("red", "10.3.0.0/24")
		}
		pods = append(pods, s.up(t, "worker-1", name, net))
	}
	listed := func(runs v1alpha1.Sandbox) (all []any) {
		for _, p := range pods {
			if b := p.stopped(); b.ID != runs.ID {
				all = append(all, b)
			}
		}
		return append(all, runs)
	}
	for _, p := range pods {
		p.forceDelete(t)
	}
	agent.writeReport(t, listed(pods[0].stopped())...)
	file, d := filepath.Join(t.TempDir(), "plan.json"), &docs.Plan{}
	for code, more := range map[int]string{2: "", 0: ",namespaces"} { // which say of which cluster it is
		export := s.export(t, exported+",leases,sandboxreports.ip-reconcile.dev"+more, "yaml")
		product(t, "plan", "--snapshot", export, "--output-file", file).exits(t, code)
	}
	check(t, json.Unmarshal(try(os.ReadFile(file)).must(t), d))
	equal(t, "items", len(d.Items), len(pods))

	// The sandbox of one runs after all; a pod by the name of another is created; an entry is another sandbox' now.
	agent.writeReport(t, listed(pods[2].listed(v1alpha1.SandboxReady))...)
	s.bare(t, "worker-1", "returns")
	_, key, _ := strings.Cut(stored(pods[4])[0], " ")
	s.patch(t, harness.IPPools, "10.1.0.0-24",
		fmt.Sprintf(`{"spec":{"allocations":{%q:{"id":%q}}}}`, key, strings.Repeat("f", 64)))
	s.patch(t, harness.IPPools, "10.3.0.0-24", pausing("true"))
	d.Items = slices.DeleteFunc(d.Items, func(it docs.PlanItem) bool { return it.PodRef == "default/deleted" })
	write(t, file, d)
	before := s.contents(t)
	out, became := s.appliedPlan(t, file)
	out.exits(t, 1)
	s.checkReleased(t, before, stored(pods[0])...)
	for i, want := range []string{"Released", "", "Changed: sandbox Stopped on worker-1 → Ready on worker-1",
		"Changed: pod none → ", "", "Paused: pool kube-system/10.3.0.0-24 is paused"} {
		if got := became[pods[i].ips[0]]; !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: %q, want %q", pods[i].Name, got, want)
		}
	}
	text := s.beginProduct(t, "apply", file, "--kubeconfig", s.Kubeconfig()).wait()
	text.exits(t, 1)
	contains(t, "the screen", text.stdout, "Released 0 items. 3 items not released.",
		"2 of 5 items of the plan are not recorded any more", "sandbox Stopped on worker-1 → Ready on worker-1")
}

// TestRead_Refuses in planfile has all other files that are refused.
func TestPlan_Refused(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	s.up(t, "worker-1", "leaked", blue).leak(t)
	file, d := s.planned(t)
	before := s.contents(t)
	// The API server's clock has whole seconds: the plan has an age in the next one.
	eventually(t, "the plan to have an age", func() bool { return time.Since(d.ObservedAt) > time.Second })
	other := d.Header
	other.Cluster.UID = "other"
	for says, c := range map[string]struct {
		plan any
		args []string
		want string
	}{
		"an item was edited": {func() any {
			p := *d
			p.Items = slices.Clone(d.Items)
			p.Items[0].ContainerID = noID
			return p
		}(), nil, "items[0].digest: "},
		"empty, of another": {planfile.New(other, nil), nil, "cluster.uid other"},
		"too old":           {d, []string{"--max-age", "1ns"}, "observedAt"},
	} {
		write(t, file, c.plan)
		out, _ := s.appliedPlan(t, file, c.args...)
		out.exits(t, 2)
		contains(t, says, out.stderr, "plan "+file+": ", c.want)
		s.checkReleased(t, before)
	}
	rights := s.account(t, "upstream", upstreamRules(t)) // which may not read namespaces
	write(t, file, d)
	for _, args := range [][]string{{"plan"}, {"apply", file, "--without-pause"}} {
		out := s.productAs(t, rights, append(args, "--agents=auto", "--reconciler-namespace", metav1.NamespaceSystem)...)
		out.exits(t, 2)
		contains(t, args[0], out.stderr, "cannot read the UID of namespace kube-system")
	}
	s.checkReleased(t, before)
	out, became := s.appliedPlan(t, file)
	out.exits(t, 0)
	equal(t, "outcomes", became, map[string]string{"10.1.0.1": "Released"})
	s.checkReleased(t, before, keys(before)...)
}
