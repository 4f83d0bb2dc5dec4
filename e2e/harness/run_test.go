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

// leftovers are what a run has on the machine: its folder, links, mounts, processes.
func leftovers(dir string) []string {
	var found []string
	if _, err := os.Stat(dir); err == nil {
		found = append(found, dir)
	}
	found = append(found, must(filepath.Glob("/sys/class/net/"+linkPrefix(filepath.Base(dir))+"*"))...)
	if strings.Contains(string(must(os.ReadFile("/proc/self/mountinfo"))), dir) {
		found = append(found, "mounts below "+dir)
	}
	return append(found, processes(dir)...)
}

// processes are those that have the folder in their command line.
func processes(dir string) []string {
	var found []string
	for _, file := range must(filepath.Glob("/proc/[0-9]*/cmdline")) {
		if line, _ := os.ReadFile(file); strings.Contains(string(line), dir) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	var dir string
	t.Run("cluster", func(t *testing.T) {
		c := start(t)
		dir = c.Dir()
		must(NewNode(t, c, "worker-1").Run(t.Context(), "default", "p", Network{"default", "blue", IPAM{"range": "10.1.0.0/24"}}))
		if found := leftovers(dir); len(found) < 6 {
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
		must(NewNode(t, c, "worker-1").Run(t.Context(), "default", "p", Network{"default", "blue", IPAM{"range": "10.1.0.0/24"}}))
		fmt.Println("up", c.Dir())
		select {}
	}
	t.Parallel()
	if why := Unsupported(); why != "" {
		t.Skip(why)
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
