//go:build cluster

package e2e

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// A match is a scenario with one contender.
type match struct {
	*installation
	saw []string // the remarks in the table
}

// remark adds a remark to the table.
func (m *match) remark(text string) { m.saw = append(m.saw, text) }

// twoPasses is long enough for a schedule of "* * * * *".
const twoPasses = 2*time.Minute + 10*time.Second

// passes waits for the time of two passes: not every contender reports when one ends.
func (m *match) passes() { time.Sleep(twoPasses) }

// TestBesideUpstream plays the scenarios with the product and with whereabouts' own reconciler and control loop. It
// writes the table of the documentation to IP_RECONCILE_TABLE.
func TestBesideUpstream(t *testing.T) {
	file := os.Getenv("IP_RECONCILE_TABLE")
	if file == "" {
		t.Skip("this is 45 minutes to fill a table, not a test of the product: make beside")
	}
	rows := make([][]string, len(besides))
	t.Run("match", func(t *testing.T) {
		for n, s := range besides {
			rows[n] = make([]string, len(contenders))
			for k, c := range contenders {
				if c.restores && !s.restores {
					continue
				}
				t.Run(strings.ReplaceAll(s.name, " ", "-")+"/"+c.name, func(t *testing.T) {
					t.Parallel()
					m := &match{installation: c.install(t, cmp.Or(s.schedule, "* * * * *"))}
					check(t, m.CreateNAD(t.Context(), simple("red", "10.2.0.0/24")))
					s.play(t, m)
					within(twoPasses, time.Second, func() bool { return len(m.oracle.report().Leaked) == 0 })
					saw := m.oracle.report()
					t.Log(saw)
					rows[n][k] = row(s.name, c.name, saw, m.saw)
					if k == 0 && len(saw.Wrong)+len(saw.Leaked) > 0 {
						t.Errorf("ours: %s", saw) // the oracle adds to it when the test ends
					}
				})
			}
		}
	})
	if !t.Failed() { // else the table does not change
		writeTable(t, file, rows)
	}
}

func row(scenario, contender string, saw oracleReport, remarks []string) string {
	took := "–"
	if n := len(saw.Released); n > 0 {
		took = fmt.Sprintf("%.0f s", saw.Released[n-1].Seconds())
		if first := fmt.Sprintf("%.0f", saw.Released[0].Seconds()); n > 1 && first+" s" != took {
			took = first + "–" + took
		}
	}
	return fmt.Sprintf("| %s | %s | %d | %d | %d | %s | %s |\n", scenario, contender,
		len(saw.Wrong), len(saw.Duplicates), len(saw.Leaked), took, strings.Join(remarks, " "))
}

// writeTable puts the rows between the marks of a file.
func writeTable(t *testing.T, file string, rows [][]string) {
	const begins, ends = "<!-- the table is written by make beside -->\n", "<!-- end of the table -->\n"
	text := string(try(os.ReadFile(file)).must(t))
	from, to := strings.Index(text, begins), strings.Index(text, ends)
	if from < 0 || to < 0 {
		t.Fatalf("%s has no place for the table: it is between %q and %q", file, begins, ends)
	}
	commit := strings.TrimSpace(string(try(exec.Command("git", "rev-parse", "--short", "HEAD").Output()).must(t)))
	table := fmt.Sprintf("Played %s, commit %s.\n\n", time.Now().UTC().Format(time.DateOnly), commit) +
		"| Situation | Reconciler | Wrongly released | In use twice | Leaked | Released after | Remarks " +
		"|\n|---|---|--:|--:|--:|--:|---|\n"
	for _, of := range rows {
		table += strings.Join(of, "")
	}
	check(t, os.WriteFile(file, []byte(text[:from]+begins+table+text[to:]), 0o644))
}

const upstreamImage = "e2e.invalid/whereabouts:0.9.4"

// A contender is a program that releases leaked addresses.
type contender struct {
	name string
	// restores means that it plays only the restores of etcd.
	restores bool
	// install starts a cluster of two workers with the contender, whose passes follow the schedule.
	install func(t *testing.T, schedule string) *installation
}

var contenders = []contender{
	{name: "ip-reconcile", install: func(t *testing.T, schedule string) *installation {
		return install(t, 2, "--cron="+schedule)
	}},
	{name: "ip-reconcile, no fence", restores: true, install: func(t *testing.T, schedule string) *installation {
		i := ready(t, 2)
		i.apply(t, "--cron="+schedule, "--fence-timeout=0")
		return i
	}},
	{name: "whereabouts v0.9.4", install: installUpstream},
}

// installUpstream starts a cluster with whereabouts' own ip-reconciler, and ip-control-loop on every worker, from
// whereabouts' manifests.
func installUpstream(t *testing.T, schedule string) *installation {
	t.Helper()
	i := ready(t, 2)
	i.removeCRD(t, sandboxReports)
	programs := harness.Upstream(t)
	check(t, i.cluster.ImportImage(t.Context(), upstreamImage, filepath.Join(programs, "ip-reconciler"),
		filepath.Join(programs, "ip-control-loop")))
	patches := `patches:
- target: {kind: ConfigMap, name: whereabouts-config}
  patch: |
    - {op: replace, path: /data/cron-expression, value: "%[1]s"}
- target: {kind: Deployment}
  patch: |
    - {op: replace, path: /spec/template/spec/containers/0/image, value: %[2]s}
    - {op: add, path: /spec/template/spec/containers/0/imagePullPolicy, value: Never}
    - {op: add, path: /spec/template/spec/nodeSelector, value: {kubernetes.io/hostname: worker-1}}
- target: {kind: DaemonSet}
  patch: |
    # The plugin is installed already.
    - {op: replace, path: /spec/template/spec/containers/0/command, value: [/ip-control-loop]}
    - {op: replace, path: /spec/template/spec/containers/0/args, value: [-log-level, debug]}
    - {op: replace, path: /spec/template/spec/containers/0/image, value: %[2]s}
    - {op: add, path: /spec/template/spec/containers/0/imagePullPolicy, value: Never}
`
	folder, resources := t.TempDir(), "resources:\n"
	for _, file := range []string{"daemonset-install.yaml", "reconciler-deployment.yaml"} {
		check(t, os.WriteFile(filepath.Join(folder, file), try(os.ReadFile(harness.UpstreamManifest(t, file))).must(t),
			0o600))
		resources += "- " + file + "\n"
	}
	check(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), fmt.Appendf(nil, resources+patches, schedule,
		upstreamImage), 0o600))
	i.mustKubectl(t, "apply", "-k", folder)
	i.rolledOut(t, "daemonset/whereabouts", "deployment/whereabouts-reconciler")
	return i
}
