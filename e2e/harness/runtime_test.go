//go:build slow

package harness

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// flavours runs a test with every containerd.
func flavours(t *testing.T, test func(*testing.T, Flavour)) {
	t.Parallel()
	for _, f := range []Flavour{ContainerdV2, ContainerdDebian} {
		t.Run(f.Name, func(t *testing.T) {
			if why := f.Unsupported(); why != "" {
				t.Skip(why)
			}
			test(t, f)
		})
	}
}

// listed are the sandboxes as "id state".
func listed(t *testing.T, r *Runtime) []string {
	t.Helper()
	all, err := r.Sandboxes(t.Context())
	check(t, err)
	found := []string{}
	for _, s := range all {
		found = append(found, s.Id+" "+strings.TrimPrefix(s.State.String(), "SANDBOX_"))
	}
	return found
}

// runPod runs a pod with its object.
func runPod(t *testing.T, r *Runtime, name string, networks ...Network) string {
	t.Helper()
	pod, err := r.Node.cluster.CreatePod(t.Context(), "default", name, r.Node.Name, networks...)
	check(t, err)
	began := time.Now()
	id, err := r.RunPod(t.Context(), PodSpec{Namespace: "default", Name: name, UID: string(pod.UID)})
	check(t, err)
	t.Logf("the sandbox of %s took %d ms", name, time.Since(began).Milliseconds())
	return id
}

// waitUntil waits for what takes a moment.
func waitUntil(t *testing.T, what func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !what(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("in 30 s it did not come to be")
		}
	}
}

func TestRuntime(t *testing.T) {
	flavours(t, func(t *testing.T, flavour Flavour) {
		c, ctx := start(t), t.Context()
		blue := Network{"default", "blue", IPAM{"range": "10.1.0.0/24"}}
		check(t, c.CreateNAD(ctx, blue))
		began := time.Now()
		r := NewRuntime(t, NewNode(t, c, "worker-1"), flavour)
		t.Logf("containerd was ready after %.1fs", time.Since(began).Seconds())
		address := netip.MustParseAddr("10.1.0.1")

		id := runPod(t, r, "web-0", blue)
		equal(t, "allocations", allocations(t, c, "10.1.0.0-24"), []string{"1 default/web-0 net1 " + id})
		equal(t, "sandboxes", listed(t, r), []string{id + " READY"})
		equal(t, "answers", r.Answers(t, address), true)
		netNS := try(r.NetNS(ctx, id)).must(t)
		equal(t, "addresses", try(r.Addresses(netNS)).must(t)["net1"], []netip.Addr{address})
		equal(t, "namespaces", try(r.NetNamespaces()).must(t), []string{netNS})
		pod := try(c.Client().CoreV1().Pods("default").Get(ctx, "web-0", metav1.GetOptions{})).must(t)
		if status := pod.Annotations[networkStatusAnnotation]; !strings.Contains(status, address.String()) {
			t.Errorf("Multus wrote the network status %q", status)
		}
		for _, file := range []string{ResultsDir + "/multus-cni-network-" + id + "-eth0", MultusDir + "/results/blue-" + id + "-net1", MultusDir + "/" + id} {
			_, err := os.Stat(r.Outside(file))
			check(t, err)
			check(t, r.Command(ctx, "test", "-s", file).Run())
		}

		r.Kill()
		if _, err := r.Sandboxes(ctx); err == nil {
			t.Error("a killed containerd answers")
		}
		began = time.Now()
		check(t, r.Start(ctx))
		t.Logf("containerd started again in %.1fs", time.Since(began).Seconds())
		equal(t, "sandboxes after a crash", listed(t, r), []string{id + " READY"})
		check(t, r.Stop())
		check(t, r.Start(ctx))
		equal(t, "sandboxes after a stop", listed(t, r), []string{id + " READY"})

		check(t, r.Freeze())
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		if _, err := r.Sandboxes(short); err == nil {
			t.Error("a frozen containerd answers")
		}
		cancel()
		check(t, r.Thaw())
		equal(t, "sandboxes after a thaw", listed(t, r), []string{id + " READY"})

		began = time.Now()
		check(t, r.StopPod(ctx, id))
		t.Logf("its end took %d ms", time.Since(began).Milliseconds())
		equal(t, "sandboxes after the end", listed(t, r), []string{id + " NOTREADY"})
		equal(t, "closed", try(r.Info(ctx, id)).must(t).NetNamespaceClosed, true)
		equal(t, "allocations after the end", allocations(t, c, "10.1.0.0-24"), []string{})
		equal(t, "answers after the end", r.Answers(t, address), false)
		check(t, r.RemovePod(ctx, id))
		equal(t, "sandboxes after their removal", listed(t, r), []string{})
	})
}

func TestRuntimeFaults(t *testing.T) {
	flavours(t, func(t *testing.T, flavour Flavour) {
		c, ctx := start(t), t.Context()
		blue := Network{"default", "blue", IPAM{"range": "10.1.0.0/24"}}
		check(t, c.CreateNAD(ctx, blue))
		node := NewNode(t, c, "worker-1")
		r := NewRuntime(t, node, flavour)
		first, second := runPod(t, r, "p-1", blue), runPod(t, r, "p-2", blue)
		one, two := netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("10.1.0.2")

		check(t, r.KillPause(ctx, first))
		equal(t, "state without pause", try(r.Status(ctx, first)).must(t).Status.State, cri.PodSandboxState_SANDBOX_NOTREADY)
		equal(t, "closed without pause", try(r.Info(ctx, first)).must(t).NetNamespaceClosed, false)
		equal(t, "answers without pause", r.Answers(t, one), true)

		began := time.Now()
		check(t, r.Reboot(ctx))
		t.Logf("a reboot took %.1fs", time.Since(began).Seconds())
		check(t, node.SetBootID(ctx, "another"))
		for _, id := range []string{first, second} {
			equal(t, "state after a reboot", try(r.Status(ctx, id)).must(t).Status.State, cri.PodSandboxState_SANDBOX_NOTREADY)
			equal(t, "closed after a reboot", try(r.Info(ctx, id)).must(t).NetNamespaceClosed, true)
		}
		equal(t, "answers after a reboot", r.Answers(t, two), false)
		equal(t, "allocations after a reboot", len(allocations(t, c, "10.1.0.0-24")), 2)

		third := runPod(t, r, "p-3", blue)
		r.Kill()
		check(t, r.LoseState())
		check(t, r.Start(ctx))
		equal(t, "sandboxes after the loss", listed(t, r), []string{})
		equal(t, "answers after the loss", r.Answers(t, netip.MustParseAddr("10.1.0.3")), true)
		_, err := os.Stat(r.Outside(MultusDir + "/" + third))
		check(t, err)
		runPod(t, r, "p-4", blue)
		equal(t, "answers beside the phantom", r.Answers(t, netip.MustParseAddr("10.1.0.4")), true)
	})
}

func TestBlindWindow(t *testing.T) {
	flavours(t, func(t *testing.T, flavour Flavour) {
		c, ctx := start(t), t.Context()
		blue := Network{"default", "blue", IPAM{"range": "10.1.0.0/24"}}
		blocker := c.NewCNIBlocker()
		check(t, c.CreateBlockedNAD(ctx, blue, blocker))
		r := NewRuntime(t, NewNode(t, c, "worker-1"), flavour)
		pod := try(c.CreatePod(ctx, "default", "p", "worker-1", blue)).must(t)
		check(t, blocker.Block())
		done := make(chan error, 1)
		go func() {
			_, err := r.RunPod(ctx, PodSpec{Namespace: "default", Name: "p", UID: string(pod.UID)})
			done <- err
		}()
		waitUntil(t, func() bool { return len(blocker.Waiting()) == 1 || len(done) == 1 })
		if len(done) == 1 {
			t.Fatalf("the pod did not wait: %v", <-done)
		}
		id := blocker.Waiting()[0]
		equal(t, "allocations in the window", allocations(t, c, "10.1.0.0-24"), []string{"1 default/p net1 " + id})
		equal(t, "sandboxes in the window", listed(t, r), []string{})
		if status, err := r.Status(ctx, id); err == nil {
			t.Errorf("in the window there is a status: %v", status)
		}
		check(t, blocker.Unblock())
		check(t, <-done)
		equal(t, "sandboxes after the window", listed(t, r), []string{id + " READY"})
		equal(t, "waiting", blocker.Waiting(), []string{})
	})
}

func TestPlainAndDefault(t *testing.T) {
	flavours(t, func(t *testing.T, flavour Flavour) {
		c, ctx := start(t), t.Context()
		plain := NewRuntime(t, NewNode(t, c, "plain"), flavour, Wiring{Plain: &Network{"default", "plain", IPAM{"range": "10.1.0.0/24"}}})
		id := runPod(t, plain, "p")
		equal(t, "allocations", allocations(t, c, "10.1.0.0-24"), []string{"1 default/p eth0 " + id})
		equal(t, "podIP", try(plain.Status(ctx, id)).must(t).Status.Network.Ip, "10.1.0.1")
		through := NewRuntime(t, NewNode(t, c, "through"), flavour, Wiring{Default: &Network{"default", "def", IPAM{"range": "10.2.0.0/24"}}})
		id = runPod(t, through, "q")
		equal(t, "allocations", allocations(t, c, "10.2.0.0-24"), []string{"1 default/q eth0 " + id})
		_, err := os.Stat(through.Outside(MultusDir + "/results/def-" + id + "-eth0"))
		check(t, err)
	})
}

func TestContainer(t *testing.T) {
	flavours(t, func(t *testing.T, flavour Flavour) {
		c, ctx := start(t), t.Context()
		r := NewRuntime(t, NewNode(t, c, "worker-1"), flavour)
		tools := try(build(own)).must(t)
		check(t, r.ImportImage(ctx, "e2e.invalid/probe:1", filepath.Join(tools, "probe")))
		pod := try(c.CreatePod(ctx, "default", "agent", "worker-1")).must(t)
		sandbox := try(r.RunPod(ctx, PodSpec{Namespace: "default", Name: "agent", UID: string(pod.UID), HostNetwork: true})).must(t)
		id := try(r.RunContainer(ctx, sandbox, ContainerSpec{
			Image: "e2e.invalid/probe:1", Args: []string{"/run/netns", Socket, "/cni", "/new"}, Env: map[string]string{"WHO": "probe"},
			ReadOnlyRoot: true, DropAll: true,
			Mounts: []Mount{
				{OnNode: NetNSDir, InContainer: "/run/netns", ReadOnly: true, Follow: true},
				{OnNode: Socket, InContainer: Socket},
				{OnNode: "/var/lib/cni", InContainer: "/cni", ReadOnly: true},
			},
		})).must(t)
		runPod(t, r, "beside")
		netNS := try(r.NetNamespaces()).must(t)[0]
		waitUntil(t, func() bool {
			log := try(r.Logs(ctx, id)).must(t)
			return strings.Contains(log, filepath.Base(netNS)+" nsfs")
		})
		log := try(r.Logs(ctx, id)).must(t)
		for _, want := range []string{"WHO=probe", "CapEff:\t0000000000000000", Socket + " connects", "/new is not made: read-only file system"} {
			if !strings.Contains(log, want) {
				t.Errorf("the container does not say %q but:\n%s", want, log)
			}
		}
		check(t, r.StopContainer(ctx, id, 0))
		equal(t, "state", try(r.Container(ctx, id)).must(t).State, cri.ContainerState_CONTAINER_EXITED)
		check(t, r.RemoveContainer(ctx, id))
	})
}

func TestCommand(t *testing.T) {
	t.Parallel()
	if why := ContainerdV2.Unsupported(); why != "" {
		t.Skip(why)
	}
	c := start(t)
	r := NewRuntime(t, NewNode(t, c, "worker-1"), ContainerdV2)
	out, err := r.Command(t.Context(), "sh", "-c", "ls "+Socket+"; exit 3").Output()
	if !strings.Contains(string(out), Socket) {
		t.Errorf("on the node there is %q", out)
	}
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("the exit status is %v", err)
	}

	term := filepath.Join(c.Dir(), "term")
	cmd := r.Command(t.Context(), "sh", "-c", "trap 'touch "+term+"; exit 0' TERM; touch "+term+".ready; while :; do sleep 0.01; done")
	check(t, cmd.Start())
	waitUntil(t, func() bool { _, err := os.Stat(term + ".ready"); return err == nil })
	check(t, cmd.Process.Signal(syscall.SIGTERM))
	check(t, cmd.Wait())
	_, err = os.Stat(term)
	check(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	cmd = r.Command(ctx, "sleep", "1000")
	check(t, cmd.Start())
	var child int
	waitUntil(t, func() bool { child, err = childOf(cmd.Process.Pid); return err == nil })
	cancel()
	cmd.Wait()
	waitUntil(t, func() bool { _, err := os.Stat(fmt.Sprint("/proc/", child)); return err != nil })
}
