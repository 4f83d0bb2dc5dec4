//go:build slow

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// exported are the kinds that the help of check says to export.
const exported = "ippools.whereabouts.cni.cncf.io,overlappingrangeipreservations.whereabouts.cni.cncf.io,pods,nodes," +
	"net-attach-def"

// export writes the cluster to a folder, as the help of check says.
func (s *stage) export(t testing.TB, kinds, as string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	out, errs, err := s.Kubectl(t.Context(), "get", kinds, "-A", "-o", as)
	if err != nil {
		t.Fatalf("kubectl get: %v: %s", err, errs)
	}
	check(t, os.WriteFile(filepath.Join(dir, "cluster."+as), []byte(out), 0o600))
	return dir
}

// said are all verdicts and findings of the JSON.
func (o *outcome) said() []string {
	var all []string
	for _, i := range slices.Concat(o.Allocations, o.Reservations) {
		i.Detail, i.ReleasableAt = "", time.Time{} // the snapshot's time is another
		all = append(all, fmt.Sprintf("%+v", i))
	}
	for _, f := range o.Findings {
		all = append(all, fmt.Sprintf("finding %+v", f))
	}
	return all
}

// same checks that two commands have the same result.
func same(t testing.TB, offline, live *outcome) {
	t.Helper()
	a, b := offline.said(), live.said()
	for _, line := range a {
		if !slices.Contains(b, line) {
			t.Errorf("said of the snapshot only: %s", line)
		}
	}
	for _, line := range b {
		if !slices.Contains(a, line) {
			t.Errorf("said of the live cluster only: %s", line)
		}
	}
	equal(t, "the order", strings.Join(a, "\n") == strings.Join(b, "\n"), true)
	equal(t, "exit code", offline.code, live.code)
	equal(t, "summary", offline.Summary, live.Summary)
}

// varied creates what verdicts and findings differ over.
func (s *stage) varied(t *testing.T) (live, leaked *pod) {
	red := network("red", harness.IPAM{"range": "10.2.0.0/24", "network_name": "red"})
	six := simple("six", "fd00:6::/64")
	dual := network("dual", harness.IPAM{"ipRanges": []map[string]any{{"range": "10.3.0.0/24"},
		{"range": "fd00:3::/112"}}})
	for _, n := range []harness.Network{blue, red, six, dual} {
		check(t, s.CreateNAD(t.Context(), n))
	}
	live = s.up(t, "worker-1", "live", blue, red, six)
	leaked = s.up(t, "worker-1", "leaked", blue, red, six, dual).leak(t)
	s.pending(t, "worker-1", "pending", blue, dual)
	s.up(t, "worker-2", "finished", blue, six).finish(t, corev1.PodSucceeded)
	s.up(t, "worker-2", "failed", blue).phase(t, corev1.PodFailed)
	s.up(t, "worker-2", "moved", blue).annotate(t, statusAnnotation,
		`[{"name":"default/blue","interface":"net1","ips":["10.1.0.99"]}]`)
	s.up(t, "worker-2", "mute", red).annotate(t, statusAnnotation, "")
	s.up(t, "worker-2", "leaving", blue).delete(t, 600)
	lacking := s.up(t, "worker-2", "lacking", blue).age(t, time.Hour)
	s.unreserve(t, lacking.ips[0])
	alone := s.up(t, "worker-2", "alone", blue).age(t, time.Hour)
	s.forget(t, alone) // Unrecorded, and its reservation has no allocation
	s.reservation(t, "10.1.0.77", "default/nobody", time.Hour)
	s.reservation(t, "red-10.2.0.77", "default/nobody", time.Hour)
	s.pool(t, "10.9.0.0-24", "10.9.0.0/24", map[string]any{
		"1": entry("default/gone", noID), "2": entry("", noID), "3": entry("no podref", noID), "999": entry("default/gone",
			noID),
		"04": entry("default/zero", noID), "x": entry("default/gone", noID),
	})
	s.pool(t, "nonsense", "not a range", map[string]any{"1": entry("default/gone", noID)})
	return live, leaked
}

func TestSnapshot_JudgedAsTheLiveCluster(t *testing.T) {
	t.Parallel()

	t.Run("without node agents", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, "worker-1", "worker-2")
		s.varied(t)
		s.snapshots(t, exported)
	})

	t.Run("with node agents", func(t *testing.T) {
		t.Parallel()
		s := newStageWithReports(t, "worker-1", "worker-2", "worker-3")
		one := s.agent(t, "worker-1") // worker-2 is silent
		s.agent(t, "worker-3")
		live, leaked := s.varied(t)
		phantom := s.up(t, "worker-1", "phantom", blue)
		phantom.forceDelete(t)
		stopped := s.up(t, "worker-1", "stopped", blue).leak(t)
		// Nothing has changed there for an hour: only the Lease confirms the report.
		one.change(func() { one.settled = time.Hour })
		one.writeReport(t, live.listed(v1alpha1.SandboxReady), leaked.gone(), phantom.listed(v1alpha1.SandboxReady),
			stopped.stopped())
		s.snapshots(t, exported+",sandboxreports.ip-reconcile.dev,leases")
	})
}

// snapshots compares snapshots of the stage with the stage.
func (s *stage) snapshots(t *testing.T, kinds string) {
	before := s.contents(t)
	live := s.product(t, "check")
	folders := map[string]string{}
	for _, as := range []string{"yaml", "json"} {
		dir := s.export(t, kinds, as)
		text := try(os.ReadFile(filepath.Join(dir, "cluster."+as))).must(t)
		offline := product(t, "check", "--snapshot", dir, "-o", "json")
		same(t, offline, live)
		equal(t, "check left the file as it was",
			string(try(os.ReadFile(filepath.Join(dir, "cluster."+as))).must(t)) == string(text), true)
		folders[as] = dir
	}
	verdicts := map[string]bool{}
	for _, v := range live.verdicts() {
		verdicts[strings.Fields(v)[0]] = true
	}
	equal(t, "there is some of everything", []any{len(verdicts), len(live.Findings) > 3, live.Summary.Stale > 5},
		[]any{3, true, true})

	s.run(t)
	after := s.contents(t)
	lost := maps.Clone(before)
	maps.DeleteFunc(lost, func(place, _ string) bool { return after[place] != "" })
	if len(lost) < 8 {
		t.Errorf("only %d entries and reservations were released", len(lost))
	}
	for as, dir := range folders {
		out := product(t, "run", "--snapshot", dir, "--confirm-after", "0", "-o", "json")
		equal(t, as+": what it would release", strings.Join(out.wouldRelease(t), ", "),
			strings.Join(slices.Sorted(maps.Keys(lost)), ", "))
	}
}

// wouldRelease are the places of the requests that a run on a snapshot would send, as in contents.
func (o *outcome) wouldRelease(t testing.TB) []string {
	t.Helper()
	var d struct {
		Deletes []string
		Patches []struct {
			Pool       string
			Operations []struct{ Op, Path string }
		}
	}
	check(t, json.Unmarshal([]byte(o.stdout), &d))
	var places []string
	for _, p := range d.Patches {
		for _, operation := range p.Operations {
			if operation.Op == "remove" {
				places = append(places, path.Base(p.Pool)+" "+path.Base(operation.Path))
			}
		}
	}
	for _, name := range d.Deletes {
		places = append(places, "reservation "+path.Base(name))
	}
	slices.Sort(places)
	return places
}
