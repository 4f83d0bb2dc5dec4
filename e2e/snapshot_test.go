//go:build !slow && !cluster

package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
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

// ofTheMoment matches what a check says of its own time: when and why an item is not released yet depends on that.
var ofTheMoment = regexp.MustCompile(`"(observedAt|toolVersion|detail|\w*[rR]eleasableAt)": |; --now sets another"`)

// comparable are the lines of a check's document without the cluster's address and what is of the moment.
func (o *outcome) comparable(t testing.TB) (lines []string) {
	t.Helper()
	var d map[string]any
	check(t, json.Unmarshal([]byte(o.stdout), &d))
	delete(d, "cluster")
	for line := range strings.Lines(string(try(json.MarshalIndent(d, "", " ")).must(t))) {
		if !ofTheMoment.MatchString(line) {
			lines = append(lines, strings.TrimRight(line, ",\n"))
		}
	}
	return lines
}

// same checks that two commands have the same result.
func same(t testing.TB, offline, live *outcome) {
	t.Helper()
	a, b := offline.comparable(t), live.comparable(t)
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
	equal(t, "the order", slices.Equal(a, b), true)
	equal(t, "exit code", offline.code, live.code)
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
		s.applied(t, "../deploy/deployment-with-agent")
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
		s.sysdumps(t)
		s.snapshots(t, exported+",sandboxreports.ip-reconcile.dev,leases")
	})
}

// sysdumps compares bundles with the stage, and searches them for annotations, labels and names.
func (s *stage) sysdumps(t *testing.T) {
	t.Helper()
	const secret = "hunter2"
	for _, object := range []string{"default pod/live", "default node/worker-1",
		"kube-system ippools.whereabouts.cni.cncf.io/10.1.0.0-24", "default sandboxreports.ip-reconcile.dev/worker-1",
		"default network-attachment-definitions.k8s.cni.cncf.io/blue"} {
		namespace, object, _ := strings.Cut(object, " ")
		for _, verb := range []string{"annotate", "label"} {
			s.mustKubectl(t, "-n", namespace, verb, object, "example.org/password="+secret)
		}
	}
	dir := t.TempDir()
	whole, redacted := filepath.Join(dir, "whole.tgz"), filepath.Join(dir, "redacted.tgz")
	live := s.product(t, "check", "--all")
	out := s.product(t, "sysdump", whole)
	s.product(t, "sysdump", redacted, "--redact-names").exits(t, 0)
	out.exits(t, 1) // nothing serves logs and metrics here
	same(t, product(t, "check", "--all", "--snapshot", whole, "-o", "json"), live)
	files := bundle(t, whole)
	contains(t, "the manifest", files["sysdump/manifest.json"], `"kind": "Sysdump"`,
		"logs/ip-reconcile-0-ip-reconcile.log: ", "metrics/ip-reconcile-0.txt: ")
	contains(t, "the status", files["sysdump/status.txt"], "Deployment kube-system/ip-reconcile")

	renamed := product(t, "check", "--all", "--snapshot", redacted, "-o", "json")
	rules := func(o *outcome) (all []string) {
		for _, i := range slices.Concat(o.Allocations, o.Reservations) {
			all = append(all, strings.Join([]string{i.IP, i.verdict(), i.Rule}, " "))
		}
		return all
	}
	equal(t, "the verdicts with other names", strings.Join(rules(renamed), "\n"), strings.Join(rules(live), "\n"))
	for _, path := range []string{whole, redacted} {
		for name, text := range bundle(t, path) {
			if strings.Contains(text, secret) {
				t.Errorf("%s of %s has the secret", name, filepath.Base(path))
			}
			for _, name := range []string{"leaked", "lacking", `"worker-1"`} {
				if path == redacted && strings.Contains(text, name) {
					at := strings.Index(text, name)
					t.Errorf("the redacted bundle names %s: %s", name, text[max(0, at-100):min(len(text), at+50)])
				}
			}
		}
	}
	s.product(t, "sysdump", whole).exits(t, 2) // it exists
}

// snapshots compares snapshots of the stage with the stage.
func (s *stage) snapshots(t *testing.T, kinds string) {
	before := s.contents(t)
	live := s.product(t, "check", "--all")
	folders := map[string]string{}
	for _, as := range []string{"yaml", "json"} {
		dir := s.export(t, kinds, as)
		text := try(os.ReadFile(filepath.Join(dir, "cluster."+as))).must(t)
		offline := product(t, "check", "--all", "--snapshot", dir, "-o", "json")
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
