//go:build slow

package harness

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// bringUp gives a cluster something of all that there is.
func bringUp(t *testing.T, c *ControlPlane) {
	t.Helper()
	blue := Network{"default", "blue", IPAM{"range": "10.1.0.0/24"}}
	n := NewNode(t, c, "worker-1")
	try(n.Run(t.Context(), "default", "p", blue)).must(t)
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

// bringUps are something of all that there is, of each kind of cluster.
var bringUps = map[string]func(t *testing.T) *ControlPlane{
	"a control plane": func(t *testing.T) *ControlPlane {
		c := start(t)
		bringUp(t, c)
		return c
	},
	"a cluster": func(t *testing.T) *ControlPlane {
		w := startCluster(t, 2)
		check(t, w.CreateNAD(t.Context(), Network{"default", "blue", IPAM{"range": "10.1.0.0/24"}}))
		check(t, statefulSet(t.Context(), w, "web", 2, "blue"))
		running(t, w, "web", 2)
		return w.ControlPlane
	},
}

func TestNothingIsLeft(t *testing.T) {
	for kind, bringUp := range bringUps {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			nothingIsLeft(t, bringUp)
		})
	}
}

func nothingIsLeft(t *testing.T, bringUp func(t *testing.T) *ControlPlane) {
	var dir string
	t.Run("cluster", func(t *testing.T) {
		dir = bringUp(t).Dir()
		found := try(leftoversOf(dir)).must(t)
		if len(found) < 12 {
			t.Errorf("this test does not see all there is, only %q", found)
		}
	})
	if dir == "" {
		t.Skip("no cluster")
	}
	equal(t, "leftovers", try(leftoversOf(dir)).must(t), []string{})
}

func TestLeftoversAreOfClustersWhoseOwnersAreDead(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	living, dead := try(newRun()).must(t), filepath.Join(runsDir(), "ad0ead")
	check(t, os.Mkdir(dead, 0o700))
	left := try(Leftovers()).must(t)
	equal(t, "left are the living's and the dead's", []bool{slices.Contains(left, living.dir), slices.Contains(left, dead)}, []bool{false, true})
	living.unlock()
	equal(t, "left when the living has ended", slices.Contains(try(Leftovers()).must(t), living.dir), true)
}

func TestASweepRemovesTheCgroupsOfARunWhoseFolderIsGoneUnlessItLivesElsewhere(t *testing.T) {
	if why := Unsupported(); why != "" {
		t.Skip(why)
	}
	const dead, living = "0dead0", "11f1f1"
	elsewhere := exec.Command("sh", "-c", "read end", filepath.Join("/elsewhere", filepath.Base(runsDir()), living))
	end := try(elsewhere.StdinPipe()).must(t)
	check(t, elsewhere.Start())
	for _, id := range []string{dead, living} {
		check(t, makeCgroup(linkPrefix(id)+"-worker"))
	}
	t.Cleanup(func() { check(t, removeCgroups(linkPrefix(living))) })
	made := try(cgroups(linkPrefix(living))).must(t)

	check(t, Sweep())
	equal(t, "cgroups of the dead and the living",
		[][]string{try(cgroups(linkPrefix(dead))).must(t), try(cgroups(linkPrefix(living))).must(t)}, [][]string{nil, made})
	for _, l := range try(Leftovers()).must(t) {
		if strings.Contains(l, linkPrefix(living)) {
			t.Errorf("%s is called left over, and a process of its cluster lives", l)
		}
	}
	check(t, end.Close())
	elsewhere.Wait()
	check(t, Sweep())
	equal(t, "cgroups when the last process has ended", try(cgroups(linkPrefix(living))).must(t), []string(nil))
}

// TestCrash plays both parts: with $E2E_CRASH it brings up what the other one kills.
func TestCrash(t *testing.T) {
	if kind := os.Getenv("E2E_CRASH"); kind != "" {
		fmt.Println("up", bringUps[kind](t).Dir())
		select {}
	}
	if why := Unsupported(); why != "" {
		t.Skip(why)
	}
	for kind := range bringUps {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			crash(t, kind)
		})
	}
}

func buildAll(t *testing.T) {
	t.Helper()
	try(build(core)).must(t)
	if ContainerdV2.Unsupported() == "" {
		for _, k := range []kit{containerdV2, multus, own, clusterKit} {
			try(build(k)).must(t)
		}
	}
}

func crash(t *testing.T, kind string) {
	buildAll(t) // not in the child's minute
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, try(os.Executable()).must(t), "-test.run=^TestCrash$")
	child.Env = append(os.Environ(), "E2E_CRASH="+kind)
	out := bufio.NewScanner(try(child.StdoutPipe()).must(t))
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
	for deadline := time.Now().Add(time.Minute); len(try(processesOf(dir)).must(t)) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("these outlive a crash: %q", try(processesOf(dir)).must(t))
		}
	}
	check(t, Sweep())
	equal(t, "leftovers", try(leftoversOf(dir)).must(t), []string{})
}
