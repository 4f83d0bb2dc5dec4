package agent_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/agent/cnicache"
	"github.com/ip-reconcile/ip-reconcile/agent/cri"
	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/internal/heaptest"
)

// runtimeEnv makes the test program be a container runtime with pods whose annotations are large.
const runtimeEnv = "IP_RECONCILE_TEST_RUNTIME"

// largePods are the pods that TestInspect_LargeAnnotations runs, each with annotations of 250 kB that JSON escapes.
const largePods, largeText = 60, 250_000

// runRuntime is that container runtime. It prints its socket and ends with its standard input.
func runRuntime(t *testing.T) {
	s := critest.Start(t, critest.Containerd)
	text := strings.Repeat("<", largeText)
	var all []critest.Sandbox
	for i := range largePods {
		all = append(all, critest.Sandbox{ID: fmt.Sprintf("%064x", i+1), Namespace: "tenant", Name: fmt.Sprint("p-", i),
			UID: fmt.Sprint("u-", i), CreatedAt: noon, Annotations: map[string]string{"a": text}})
	}
	s.Set(all...)
	fmt.Println(s.Socket)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// The agent of a node with such pods stays within the memory of its container, also when it starts.
func TestInspect_LargeAnnotations(t *testing.T) {
	if os.Getenv(runtimeEnv) != "" {
		runRuntime(t)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestInspect_LargeAnnotations$")
	cmd.Env = append(os.Environ(), runtimeEnv+"=yes")
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	defer func() { in.Close(); _ = cmd.Wait() }()
	socket, err := bufio.NewReader(out).ReadString('\n')
	check(t, err)
	r, err := cri.Dial(strings.TrimSpace(socket))
	check(t, err)
	defer r.Close()
	results := t.TempDir()
	for i := range largePods {
		id := fmt.Sprintf("%064x", i+1)
		check(t, os.WriteFile(results+"/net-"+id+"-eth0", []byte("{"), 0o600))
	}
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // the peak is then what is in use
	for _, start := range []string{"at first", "after a restart"} {
		ni := &agent.NodeInspector{Runtime: r, Caches: cnicache.New(cnicache.Folders{Results: results, Multus: results})}
		before := heaptest.InUse()
		var inspection *agent.Inspection
		// With the container's limit: 60 % of 128 MiB.
		peak := heaptest.Peak(77<<20, func() { inspection, err = ni.Inspect(t.Context()) })
		if grown := int64(peak) - int64(before); grown > 64<<20 {
			t.Errorf("%s: the heap grew by %d MiB", start, grown>>20)
		}
		if err != nil || len(inspection.Sandboxes) != largePods {
			t.Fatalf("%s: %v", start, err)
		}
		for _, s := range inspection.Sandboxes {
			if s.NetworkClosed == nil || *s.NetworkClosed {
				t.Fatalf("%s: the network of %s: %v; %v", start, s.Name, s.NetworkClosed, ni.Unreadable()[s.ID])
			}
		}
		if kept := int64(heaptest.InUse()) - int64(before); kept > 4<<20 {
			t.Errorf("%s: %d MiB are kept", start, kept>>20)
		}
	}
}
