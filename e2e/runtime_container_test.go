//go:build slow

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

func TestTheAgentInTheContainerOfItsDaemonSetSeesItsNode(t *testing.T) {
	everyContainerd(t, func(t *testing.T, flavour harness.Flavour) {
		s := newStageWithReports(t, "worker-1")
		if _, errs, err := s.Kubectl(t.Context(), "apply", "-k", agentManifests(t, ""), "--validate=strict"); err != nil {
			t.Fatalf("kubectl apply: %v\n%s", err, errs)
		}
		blue, blocker := simple("blue", "10.1.0.0/24"), s.NewCNIBlocker()
		check(t, s.CreateBlockedNAD(t.Context(), blue, blocker))
		n := &realNode{Runtime: harness.NewRuntime(t, s.nodes["worker-1"], flavour), s: s, name: "worker-1"}

		web := n.up(t, "web", blue)

		astray := n.agentPod(t, "astray", func(c *harness.ContainerSpec) { c.Env["POD_UID"] = "00000000-0000-4000-8000-000000000000" })
		astray.turns(t, http.StatusServiceUnavailable, "the runtime does not list the agent's own sandbox as READY")
		if r := s.report(t, "worker-1"); r != nil {
			t.Errorf("there is a report: %+v", r)
		}
		check(t, n.StopContainer(t.Context(), astray.container, 5))
		a := n.agentPod(t, "agent", nil)
		a.turns(t, http.StatusOK)
		// The sandboxes of agents are on the host's network, and the caches are root's.
		r := n.sees(t, web.id, "Ready")
		equal(t, "sandboxes", len(r.Sandboxes)+len(r.Attachments)+len(r.Gone), 1)
		equal(t, "addresses", fmt.Sprint(r.Sandboxes[0].Addresses), "[{10.1.0.1 net1 blue 10.1.0.0/24 }]")
		equal(t, "the boot id is there", r.BootID != "", true)

		netNS := try(n.NetNS(t.Context(), web.id)).must(t)
		a.holds(t, netNS, true)
		check(t, n.KillPause(t.Context(), web.id))
		n.sees(t, web.id, "NotReady")
		n.answers(t, "10.1.0.1", true)
		web.forget(t)
		before := s.contents(t)
		s.run(t).expect(t, of(1, "Held SandboxNotReady")...)
		s.lost(t, before)
		check(t, n.LoseDELs(true))
		check(t, n.StopPod(t.Context(), web.id))
		n.sees(t, web.id, "Stopped")
		n.answers(t, "10.1.0.1", false)
		a.holds(t, netNS, false)
		s.run(t).exits(t, 0)
		s.lost(t, before, entryAndReservation(1)...)

		// Of a sandbox that is not listed only the folder of namespaces tells.
		next := n.up(t, "next", blue)
		n.sees(t, next.id, "Ready")
		check(t, blocker.Block())
		starting, ended := n.held(t, blocker, "starting", blue)
		open, closed := false, true
		n.tells(t, starting.id, &open)
		for _, found := range try(n.OnWire()).must(t) {
			if !slices.Contains(found, try(n.NetNS(t.Context(), next.id)).must(t)) {
				netNS = found[0]
			}
		}
		a.holds(t, netNS, true)
		n.removeNetNS(t, netNS)
		n.tells(t, starting.id, &closed)
		a.holds(t, netNS, false)
		check(t, blocker.Unblock())
		if err := <-ended; err == nil {
			t.Error("a pod whose namespace was taken away is up")
		}

		// The socket is another one afterwards, in the same folder.
		n.Kill()
		a.turns(t, http.StatusServiceUnavailable, "the node could not be inspected", harness.Socket)
		check(t, n.Start(t.Context()))
		a.turns(t, http.StatusOK)
		last := n.up(t, "last", blue)
		n.sees(t, last.id, "Ready")
		equal(t, "the container", try(n.Container(t.Context(), a.container)).must(t).State, cri.ContainerState_CONTAINER_RUNNING)
	})
}

// An agentPod is an agent in a container, as the DaemonSet makes it.
type agentPod struct {
	health
	n         *realNode
	container string
}

// agentPod runs a pod of the DaemonSet's template as kubelet does, but for its
// change, the port, and the limits of CPU and memory.
func (n *realNode) agentPod(t testing.TB, name string, change func(*harness.ContainerSpec)) *agentPod {
	t.Helper()
	ds := daemonSet(t, n.s.rendered(t, agentManifests(t, "")))
	template := ds.Spec.Template.Spec
	container := template.Containers[0]
	template.NodeName = n.name
	pod := try(n.s.Client().CoreV1().Pods(ds.Namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: ds.Spec.Template.Labels}, Spec: template,
	}, metav1.CreateOptions{})).must(t)
	sandbox := try(n.RunPod(t.Context(), harness.PodSpec{
		Namespace: pod.Namespace, Name: name, UID: string(pod.UID), HostNetwork: pod.Spec.HostNetwork,
	})).must(t)

	a := &agentPod{health: health(freeAddress(t)), n: n}
	image := "e2e.invalid/" + name + ":1"
	program := path.Base(slices.Concat(container.Command, []string{"/ip-reconcile"})[0]) // as the Dockerfile says
	check(t, n.ImportImage(t.Context(), image, shipped.program(t, program)))
	spec := harness.ContainerSpec{
		Image: image, Command: container.Command, Args: append(container.Args, "--metrics-bind-address", string(a.health), "--log-level", "debug"),
		Env: map[string]string{}, User: template.SecurityContext.RunAsUser,
		ReadOnlyRoot: *container.SecurityContext.ReadOnlyRootFilesystem,
		DropAll:      slices.Equal(container.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}) && !*container.SecurityContext.AllowPrivilegeEscalation,
	}
	for _, e := range container.Env {
		spec.Env[e.Name] = map[string]string{"spec.nodeName": pod.Spec.NodeName, "metadata.uid": string(pod.UID)}[e.ValueFrom.FieldRef.FieldPath]
	}
	for _, m := range container.VolumeMounts {
		v := template.Volumes[slices.IndexFunc(template.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })]
		if v.HostPath == nil {
			continue // its token: inCluster
		}
		spec.Mounts = append(spec.Mounts, harness.Mount{
			OnNode: v.HostPath.Path, InContainer: m.MountPath, ReadOnly: m.ReadOnly,
			Follow: ptr.Deref(m.MountPropagation, "") == corev1.MountPropagationHostToContainer,
		})
	}
	n.inCluster(t, pod, &spec)
	if change != nil {
		change(&spec)
	}
	a.container = n.runs(t, sandbox, spec)
	t.Cleanup(func() {
		if t.Failed() {
			logs, err := os.ReadFile(filepath.Join(n.s.Dir(), "node-"+n.name, "runtime", "logs", string(pod.UID), "main.log"))
			t.Logf("the agent of the pod %s said (%v):\n%s", name, err, shortened(string(logs)))
		}
	})
	return a
}

// runs starts a container. The CRI learns of an image that was imported by an event: it may not have it yet.
func (n *realNode) runs(t testing.TB, sandbox string, spec harness.ContainerSpec) (id string) {
	t.Helper()
	var err error
	eventually(t, "the CRI to have the image "+spec.Image, func() bool {
		id, err = n.RunContainer(t.Context(), sandbox, spec)
		return err == nil || !strings.Contains(err.Error(), "failed to resolve image")
	})
	check(t, err)
	return id
}

// inCluster gives a container what kubelet gives it for its way to the API server.
func (n *realNode) inCluster(t testing.TB, pod *corev1.Pod, spec *harness.ContainerSpec) {
	t.Helper()
	config := configOf(t, n.s.KubeconfigForPod(t, pod))
	server, port, err := net.SplitHostPort(strings.TrimPrefix(config.Host, "https://"))
	check(t, err)
	spec.Env["KUBERNETES_SERVICE_HOST"], spec.Env["KUBERNETES_SERVICE_PORT"] = server, port
	dir := t.TempDir()
	for file, text := range map[string][]byte{
		corev1.ServiceAccountTokenKey: []byte(config.BearerToken), corev1.ServiceAccountRootCAKey: config.CAData,
		corev1.ServiceAccountNamespaceKey: []byte(pod.Namespace),
	} {
		check(t, os.WriteFile(filepath.Join(dir, file), text, 0o600))
	}
	spec.Mounts = append(spec.Mounts, harness.Mount{OnNode: dir, InContainer: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true})
}

// holds checks whether a network namespace of the node is mounted in the container:
// as long as it is, it and its addresses live on.
func (a *agentPod) holds(t testing.TB, netNS string, want bool) {
	t.Helper()
	answer := try(a.n.CRI().ContainerStatus(t.Context(), &cri.ContainerStatusRequest{ContainerId: a.container, Verbose: true})).must(t)
	var info struct {
		PID int `json:"pid"`
	}
	check(t, json.Unmarshal([]byte(answer.Info["info"]), &info))
	mounts := string(try(a.n.Command(t.Context(), "cat", fmt.Sprint("/proc/", info.PID, "/mountinfo")).Output()).must(t))
	contains(t, "what is mounted in the container", mounts, "/run/netns", "/var/run/netns", "/var/lib/cni")
	if got := strings.Contains(mounts, path.Base(netNS)); got != want {
		t.Errorf("the namespace %s is mounted in the container: %t, want %t:\n%s", netNS, got, want, mounts)
	}
}
