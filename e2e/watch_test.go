//go:build !slow && !cluster

package e2e

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestWatch_SurvivesTheAPIServer has a pod come and go while check -w and pools -w run, and the API server restart in
// between.
func TestWatch_SurvivesTheAPIServer(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	net := simple("net", "10.8.0.0/24")
	check(t, s.CreateNAD(t.Context(), net))
	s.up(t, "worker-1", "one", net)
	items := s.beginProduct(t, "check", "-w", "--kubeconfig", s.Kubeconfig())
	pools := s.beginProduct(t, "pools", "-w", "-o", "json", "--kubeconfig", s.Kubeconfig())
	lines := func(c *command) []string { return strings.Split(strings.TrimSuffix(c.stdout.String(), "\n"), "\n") }
	eventually(t, "the first results", func() bool {
		return strings.Contains(items.stdout.String(), "0 findings.") && pools.stdout.String() != ""
	})
	first := len(lines(items))

	two := s.up(t, "worker-1", "two", net)
	eventually(t, "the allocation to appear", func() bool {
		return strings.Contains(items.stdout.String(), "default/two InUse AddressOnPod") && len(lines(pools)) > 1
	})
	s.StopAPI()
	for _, c := range []*command{items, pools} {
		eventually(t, "an error", func() bool { return strings.Contains(c.stderr.String(), "; trying again\n") })
	}
	check(t, s.StartAPI(t.Context()))
	two.del(t)
	eventually(t, "the allocation to vanish", func() bool {
		all := lines(pools)
		return strings.Contains(items.stdout.String(), "vanished  10.8.0.2") &&
			strings.Contains(all[len(all)-1], `"is":"1 used of 254`)
	})

	for _, c := range []*command{items, pools} {
		check(t, c.cmd.Process.Signal(os.Interrupt))
		check(t, c.cmd.Wait()) // exit code 0
		for line := range strings.Lines(c.stderr.String()) {
			if !strings.HasSuffix(line, "; trying again\n") && !strings.HasPrefix(line, "Note: no node agent reports") {
				t.Errorf("stderr has %q", line)
			}
		}
	}
	is := regexp.MustCompile(`^\d{4}-\d\d-\d\dT[\d:]{8}Z  (appeared|changed |vanished)  ` +
		`10\.8\.0\.2 of kube-system/10\.8\.0\.0-24: `)
	for _, line := range lines(items)[first:] {
		if !is.MatchString(line) {
			t.Errorf("not a change of the pod's allocation: %q", line)
		}
	}
	schemas := try(publishedSchemas()).must(t)
	for i, line := range lines(pools) {
		kind := map[bool]string{true: "PoolList", false: "Change"}[i == 0]
		var d map[string]any
		check(t, json.Unmarshal([]byte(line), &d))
		equal(t, "the kind", d["kind"], any(kind))
		check(t, schemas[kind].Validate(d))
	}
}
