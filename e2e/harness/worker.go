package harness

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Worker is a node of a Cluster: a Runtime with a kubelet, in a network namespace of its own. The methods of the
// Runtime are containerd's faults, those of Kubelet kubelet's.
type Worker struct {
	*Runtime
	Name    string
	Kubelet Daemon

	cluster *Cluster
	number  int
	slicer  Daemon
	logind  *logind // kubelet's source of shutdowns, if any
}

func newWorker(w *Cluster, number int) *Worker {
	name := fmt.Sprint("worker-", number)
	r := newRuntime(&Node{Name: name, cluster: w.ControlPlane, dir: filepath.Join(w.run.dir, "node-"+name)}, ContainerdV2)
	r.plug = func(pid string) error { return w.plugIn(number, pid) }
	return &Worker{Runtime: r, Name: name, cluster: w, number: number}
}

// install creates the worker's files on disk.
func (w *Worker) install() error {
	if err := w.writeBase(); err != nil {
		return err
	}
	if err := w.prepare(w.cluster.podNetwork(w.number)); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(w.Runtime.dir, staticPods), 0o755); err != nil {
		return err
	}
	files := map[string]string{"kubelet.json": string(w.kubeletConfig()), bootIDFile: newBootID()}
	maps.Copy(files, tunables())
	for path, content := range files {
		path = filepath.Join(w.dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return makeCgroup(w.cgroup())
}

// tunables are the kernel's settings that kubelet requires. It would set them for the whole machine, so the node has
// files in their place.
func tunables() map[string]string {
	return map[string]string{
		"proc/sys/vm/overcommit_memory":      "1\n",
		"proc/sys/vm/panic_on_oom":           "0\n",
		"proc/sys/kernel/panic":              "10\n",
		"proc/sys/kernel/panic_on_oops":      "1\n",
		"proc/sys/kernel/keys/root_maxkeys":  "1000000\n",
		"proc/sys/kernel/keys/root_maxbytes": "25000000\n",
	}
}

// writeBase writes the base spec of containers: containerd's own, with the node's boot id in /proc instead of the
// machine's.
func (w *Worker) writeBase() error {
	programs, err := build(w.flavour.programs)
	if err != nil {
		return err
	}
	tools, err := build(own)
	if err != nil {
		return err
	}
	out, err := command(filepath.Join(programs, "ctr"), "oci", "spec")
	if err != nil {
		return err
	}
	var spec map[string]any
	if err := json.Unmarshal(out, &spec); err != nil {
		return err
	}
	nodens := filepath.Join(tools, "nodens")
	spec["hooks"] = map[string]any{"createContainer": []any{
		map[string]any{"path": nodens, "args": []string{nodens, "show", "/" + bootIDFile}},
	}}
	w.base = filepath.Join(w.dir, "base.json")
	return errors.Join(os.MkdirAll(w.dir, 0o755), os.WriteFile(w.base, asJSON(spec), 0o644))
}

func (w *Worker) kubeletConfig() []byte {
	return asJSON(map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"authentication": map[string]any{"anonymous": map[string]bool{"enabled": true},
			"webhook": map[string]bool{"enabled": false}},
		"authorization":            map[string]string{"mode": "AlwaysAllow"},
		"containerRuntimeEndpoint": "unix://" + Socket,
		"cgroupDriver":             "cgroupfs", "cgroupRoot": "/" + w.cgroup(), "failCgroupV1": false, "failSwapOn": false,
		"enforceNodeAllocatable":    []string{"none"},
		"volumePluginDir":           "/var/lib/kubelet/volume-plugins",
		"staticPodPath":             staticPods,
		"resolvConf":                "",
		"makeIPTablesUtilChains":    false,
		"nodeStatusUpdateFrequency": (nodeGrace / 4).String(), "nodeLeaseDurationSeconds": int(nodeGrace.Seconds()),
		// The disk is the machine's, and others fill it.
		"imageGCHighThresholdPercent": 100,
		"evictionHard": map[string]string{"memory.available": "50Mi", "nodefs.available": "0%",
			"nodefs.inodesFree": "0%", "imagefs.available": "0%"},
	})
}

// StartKubelet starts kubelet, also after Kubelet.Kill or Stop.
func (w *Worker) StartKubelet() error {
	cmd := w.Command(context.Background(), w.cluster.parts, "kubelet",
		"--config="+filepath.Join(w.dir, "kubelet.json"), "--kubeconfig="+w.cluster.Kubeconfig(),
		"--hostname-override="+w.Name, "--node-ip="+w.cluster.subnet.node(w.number), "--v=2")
	if w.logind != nil {
		cmd.Env = append(cmd.Env, w.logind.environment())
	}
	_, err := w.Kubelet.start(w.Node.dir, "kubelet", cmd)
	return err
}

// WaitReady waits until the control plane counts the worker as ready for pods.
func (w *Worker) WaitReady(ctx context.Context) error {
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		if err := w.Kubelet.held().ended(); err != nil {
			return false, err
		}
		node, err := w.cluster.client.CoreV1().Nodes().Get(ctx, w.Name, metav1.GetOptions{})
		return err == nil && nodeReady(node), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", w.Name, err)
	}
	return nil
}

// Boot starts the worker after PowerOff: another boot id, an empty /run, no processes. It waits for containerd and not
// for kubelet.
func (w *Worker) Boot(ctx context.Context) error {
	// Cgroups do not outlive a boot, and kubelet takes three seconds for each that did.
	if err := errors.Join(removeCgroups(w.cgroup()), makeCgroup(w.cgroup())); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(w.dir, bootIDFile), []byte(newBootID()), 0o644); err != nil {
		return err
	}
	if err := w.Runtime.Boot(ctx); err != nil {
		return err
	}
	return w.StartKubelet()
}

// PowerOff ends all that runs on the worker at once.
func (w *Worker) PowerOff() {
	w.Runtime.PowerOff()
	w.Kubelet.gone()
	w.slicer.gone()
}

// CutOff disconnects the worker, and the pods' default network, from the cluster's wire. The wire of the secondary
// networks stays.
func (w *Worker) CutOff() error { return w.cable("down") }

// Reconnect ends CutOff.
func (w *Worker) Reconnect() error { return w.cable("up") }

func (w *Worker) cable(state string) error {
	return w.cluster.atSwitches("link set " + plug("main", w.number) + " " + state)
}

func (w *Worker) close() error {
	err := w.Runtime.close()
	w.Kubelet.gone()
	w.slicer.gone()
	if w.logind != nil {
		err = errors.Join(err, w.logind.socket.Close())
	}
	return err
}

const bootIDFile = "proc/sys/kernel/random/boot_id"

func newBootID() string {
	b := make([]byte, 16)
	rand.Read(b)
	return fmt.Sprintf("%x-%x-%x-%x-%x\n", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
