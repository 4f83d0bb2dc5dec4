//go:build slow

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The agent of a node on which a tenant runs pods with annotations of 250 kB stays within its container's 128 MiB, also
// after a restart.
func TestRuntime_LargeAnnotations(t *testing.T) {
	everyContainerd(t, func(t *testing.T, s *stage, n *realNode) {
		check(t, s.CreateNAD(t.Context(), blue))
		n.agent.stop(t)
		web := n.up(t, "web", blue)
		text := strings.Repeat("<", 250_000)
		for i := range 60 {
			p := n.object(t, fmt.Sprint("large-", i)).spec()
			p.Annotations = map[string]string{"a": text}
			try(n.RunPod(t.Context(), p)).must(t)
		}
		for _, when := range []string{"at first", "after a restart"} {
			cmd := n.Command(context.Background(), shipped.program(t, "ip-reconcile-agent"), "--node", n.name, "--outside-pod",
				"--kubeconfig", s.Kubeconfig(), "--metrics-bind-address", "127.0.0.1:0")
			cmd.Env = append(cmd.Environ(), "GOMEMLIMIT=77MiB") // as in its container
			n.agent = start(t, cmd)
			n.agent.logOnFailure(n.name)
			n.sees(t, web.id, "Ready")
			n.renews(t)
			if most := peakMemory(t, n.agent); most < 10 || most > 110 {
				t.Errorf("%s: the agent took %d MiB", when, most)
			} else {
				t.Logf("%s: the agent took %d MiB", when, most)
			}
			n.agent.stop(t)
		}
	})
}

// peakMemory is the most that a process and those that it started had resident, in MiB.
func peakMemory(t testing.TB, c *command) (most int) {
	t.Helper()
	pids := []string{strconv.Itoa(c.cmd.Process.Pid)}
	for len(pids) > 0 {
		pid := pids[0]
		children, _ := filepath.Glob("/proc/" + pid + "/task/*/children")
		pids = pids[1:]
		for _, file := range children {
			pids = append(pids, strings.Fields(string(try(os.ReadFile(file)).must(t)))...)
		}
		for line := range strings.Lines(string(try(os.ReadFile("/proc/" + pid + "/status")).must(t))) {
			if f := strings.Fields(line); f[0] == "VmHWM:" {
				most = max(most, try(strconv.Atoi(f[1])).must(t)/1024)
			}
		}
	}
	return most
}
