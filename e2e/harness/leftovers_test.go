//go:build slow

package harness

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// try(f()).must(t) is the value of a call that must not fail; try alone checks nothing.
func try[T any](v T, err error) tried[T] { return tried[T]{v, err} }

type tried[T any] struct {
	value T
	err   error
}

// must ends the test t on an error.
func (r tried[T]) must(t *testing.T) T {
	t.Helper()
	check(t, r.err)
	return r.value
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// bringUps start something of every kind, for each kind of cluster.
var bringUps = map[string]func(t *testing.T) *ControlPlane{
	"a control plane": func(t *testing.T) *ControlPlane {
		if why := Unsupported(); why != "" {
			t.Skip(why)
		}
		c, blue := StartControlPlane(t), Network{"default", "blue", IPAM{"range": "10.1.0.0/24"}}
		n := NewNode(t, c, "worker-1")
		a := Attachment{Sandbox: try(n.NewSandbox()).must(t), Namespace: "default", Pod: "p", IfName: "net1", Network: blue}
		try(n.Add(t.Context(), a)).must(t)
		if ContainerdV2.Unsupported() == "" {
			check(t, c.CreateNAD(t.Context(), blue))
			r := NewRuntime(t, n, ContainerdV2)
			runPod(t, r, "q", blue)
			r.Kill()
			check(t, r.LoseState())
			check(t, r.Start(t.Context()))
			runPod(t, r, "r", blue)
		}
		return c
	},
	"a cluster": func(t *testing.T) *ControlPlane {
		if why := ContainerdV2.Unsupported(); why != "" {
			t.Skip(why)
		}
		w := StartCluster(t, 2, false)
		check(t, w.CreateNAD(t.Context(), Network{"default", "blue", IPAM{"range": "10.1.0.0/24"}}))
		pods := w.Client().CoreV1().Pods("default")
		for _, worker := range w.Workers {
			try(pods.Create(t.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "on-" + worker.Name,
					Annotations: map[string]string{networksAnnotation: "blue"}},
				Spec: corev1.PodSpec{
					NodeName:   worker.Name,
					Containers: []corev1.Container{{Name: "main", Image: WorkloadImage, ImagePullPolicy: corev1.PullNever}},
				},
			}, metav1.CreateOptions{})).must(t)
			check(t, poll(t.Context(), func(ctx context.Context) (bool, error) {
				p, err := pods.Get(ctx, "on-"+worker.Name, metav1.GetOptions{})
				return err == nil && p.Status.Phase == corev1.PodRunning, err
			}))
		}
		return w.ControlPlane
	},
}

// runPod runs a pod with its object in a real runtime.
func runPod(t *testing.T, r *Runtime, name string, networks ...Network) {
	t.Helper()
	pod := try(r.Node.cluster.CreatePod(t.Context(), "default", name, r.Node.Name, networks...)).must(t)
	try(r.RunPod(t.Context(), PodSpec{Namespace: "default", Name: name, UID: string(pod.UID)})).must(t)
}

func TestLeftovers_OwnersAreDead(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	living, dead := try(newRun()).must(t), filepath.Join(runsDir(), "ad0ead")
	check(t, os.Mkdir(dead, 0o700))
	left := try(Leftovers()).must(t)
	equal(t, "left are the living's and the dead's", []bool{slices.Contains(left, living.dir),
		slices.Contains(left, dead)}, []bool{false, true})
	living.unlock()
	equal(t, "left when the living has ended", slices.Contains(try(Leftovers()).must(t), living.dir), true)
}

func TestSweep_RemovesCgroupsOfDeadRuns(t *testing.T) {
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
			t.Errorf("%s is listed, and a process of its cluster lives", l)
		}
	}
	check(t, end.Close())
	elsewhere.Wait()
	check(t, Sweep())
	equal(t, "cgroups when the last process has ended", try(cgroups(linkPrefix(living))).must(t), []string(nil))
}

// TestCrash plays both roles: with $E2E_CRASH it starts what the other one kills.
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
	found, err := leftoversOf(dir)
	if check(t, err); len(found) < 12 {
		t.Errorf("this test does not see all there is, only %q", found)
	}
	check(t, child.Process.Kill())
	child.Wait()
	if dir == "" {
		t.Fatal("the test process that was to crash did not come up")
	}
	deadline := time.Now().Add(time.Minute)
	for ; len(try(processesOf(dir)).must(t)) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("these outlive a crash: %q", try(processesOf(dir)).must(t))
		}
	}
	check(t, Sweep())
	equal(t, "leftovers", try(leftoversOf(dir)).must(t), []string{})
}

func TestPlanes_AreCleanForTheNextTest(t *testing.T) {
	t.Parallel()
	if why := Unsupported(); why != "" {
		t.Skip(why)
	}
	planes := &Planes{}
	t.Cleanup(func() { check(t, planes.Close()) })
	var folder, address string
	var fresh contents
	t.Run("the first leaves much", func(t *testing.T) {
		c := planes.Start(t)
		folder, address, fresh = c.Dir(), c.server(), try(c.contents(t.Context(), false)).must(t)
		_, err := c.CreatePod(t.Context(), "default", "web", "")
		check(t, err)
		check(t, c.Dynamic().Resource(crds).Delete(t.Context(), "ippools.whereabouts.cni.cncf.io", metav1.DeleteOptions{}))
		check(t, poll(t.Context(), func(ctx context.Context) (bool, error) { // else another is started
			_, err := c.Dynamic().Resource(crds).Get(ctx, "ippools.whereabouts.cni.cncf.io", metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		}))
		check(t, c.Client().CoreV1().Namespaces().Delete(t.Context(), LeaseNamespace, metav1.DeleteOptions{}))
		admin := try(c.Client().RbacV1().ClusterRoles().Get(t.Context(), "cluster-admin", metav1.GetOptions{})).must(t)
		admin.Rules = []rbacv1.PolicyRule{}
		try(c.Client().RbacV1().ClusterRoles().Update(t.Context(), admin, metav1.UpdateOptions{})).must(t)
	})
	t.Run("the next finds nothing of it", func(t *testing.T) {
		c := planes.Start(t)
		equal(t, "the server", c.server(), address)
		equal(t, "the folder is another one", c.Dir() != folder, true)
		found := try(c.contents(t.Context(), false)).must(t)
		for key, was := range fresh {
			if !bytes.Equal(found[key].value, was.value) && key != "/registry/leases/kube-system/"+identity(t, c) {
				t.Errorf("%s is another one", key)
			}
			delete(found, key)
		}
		for key := range found {
			t.Errorf("%s is there", key)
		}
		_, err := c.Client().CoreV1().Pods("default").Get(t.Context(), "web", metav1.GetOptions{})
		equal(t, "the pod is gone", apierrors.IsNotFound(err), true)
		try(c.Dynamic().Resource(IPPools).List(t.Context(), metav1.ListOptions{})).must(t)
		equal(t, "writes of pools and reservations", len(try(c.AuditLog().Next()).must(t)), 0)
		c.StopAPI()
	})
	t.Run("one that was stopped is not given again", func(t *testing.T) {
		equal(t, "the server is another one", planes.Start(t).server() != address, true)
	})
}

// identity is the Lease that the API server renews.
func identity(t *testing.T, c *ControlPlane) string {
	t.Helper()
	leases := try(c.Client().CoordinationV1().Leases("kube-system").List(t.Context(),
		metav1.ListOptions{LabelSelector: "apiserver.kubernetes.io/identity"})).must(t)
	equal(t, "API servers", len(leases.Items), 1)
	return leases.Items[0].Name
}
