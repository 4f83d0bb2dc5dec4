package harness

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// leftovers are what a run has on the machine: its folder, links, cgroups, mounts,
// processes.
func leftovers(dir string) []string {
	var found []string
	if _, err := os.Stat(dir); err == nil {
		found = append(found, dir)
	}
	found = append(found, must(filepath.Glob("/sys/class/net/"+linkPrefix(filepath.Base(dir))+"*"))...)
	found = append(found, must(filepath.Glob("/sys/fs/cgroup/"+linkPrefix(filepath.Base(dir))+"*"))...)
	found = append(found, must(filepath.Glob("/sys/fs/cgroup/*/"+linkPrefix(filepath.Base(dir))+"*"))...)
	if strings.Contains(string(must(os.ReadFile("/proc/self/mountinfo"))), dir) {
		found = append(found, "mounts below "+dir)
	}
	return append(found, processes(dir)...)
}

// processes are those that have the folder in their command line, or in mounts
// that this process does not have: those on a node.
func processes(dir string) []string {
	var found []string
	here := must(os.Readlink("/proc/self/ns/mnt"))
	for _, file := range must(filepath.Glob("/proc/[0-9]*/cmdline")) {
		line, _ := os.ReadFile(file)
		belongs := strings.Contains(string(line), dir)
		if there, err := os.Readlink(filepath.Dir(file) + "/ns/mnt"); err == nil && there != here {
			mounts, _ := os.ReadFile(filepath.Dir(file) + "/mountinfo")
			belongs = belongs || strings.Contains(string(mounts), dir)
		}
		if belongs {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// bringUp gives a cluster something of all that there is.
func bringUp(t *testing.T, c *Cluster) {
	t.Helper()
	blue := Network{"default", "blue", IPAM{"range": "10.1.0.0/24"}}
	n := NewNode(t, c, "worker-1")
	must(n.Run(t.Context(), "default", "p", blue))
	if ContainerdV2.Unsupported() == "" {
		check(t, c.CreateNAD(t.Context(), blue))
		r := NewRuntime(t, n, ContainerdV2)
		runPod(t, r, "q", blue)
		r.Kill()
		check(t, r.LoseState())
		check(t, r.Start(t.Context()))
		runPod(t, r, "r", blue)
	}
}

func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	var dir string
	t.Run("cluster", func(t *testing.T) {
		c := start(t)
		dir = c.Dir()
		bringUp(t, c)
		if found := leftovers(dir); len(found) < 12 {
			t.Errorf("this test does not see all there is, only %q", found)
		}
	})
	if dir == "" {
		t.Skip("no cluster")
	}
	equal(t, "leftovers", leftovers(dir), []string{})
}

// TestCrash plays both parts: with $E2E_CRASH it brings up what the other one kills.
func TestCrash(t *testing.T) {
	if os.Getenv("E2E_CRASH") != "" {
		c := start(t)
		bringUp(t, c)
		fmt.Println("up", c.Dir())
		select {}
	}
	t.Parallel()
	if why := Unsupported(); why != "" {
		t.Skip(why)
	}
	must(build(core)) // not in the child's minute
	if ContainerdV2.Unsupported() == "" {
		for _, k := range []kit{containerdV2, multus, own} {
			must(build(k))
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, must(os.Executable()), "-test.run=^TestCrash$")
	child.Env = append(os.Environ(), "E2E_CRASH=1")
	out := bufio.NewScanner(must(child.StdoutPipe()))
	check(t, child.Start())
	var dir string
	for dir == "" && out.Scan() {
		dir, _ = strings.CutPrefix(out.Text(), "up ")
		if !filepath.IsAbs(dir) {
			dir = ""
		}
	}
	check(t, child.Process.Kill())
	child.Wait()
	if dir == "" {
		t.Fatal("the test process that was to crash did not come up")
	}
	for deadline := time.Now().Add(10 * time.Second); len(processes(dir)) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("these outlive a crash: %q", processes(dir))
		}
	}
	unlock := must(lockRuns())
	check(t, sweep())
	unlock()
	equal(t, "leftovers", leftovers(dir), []string{})
}
