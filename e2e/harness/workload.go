package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// WorkloadImage is on every Worker. Its program answers at port 80 with the name of its pod. With -stubborn it ends
// only when it is killed; with -fill it has four mebibytes on its disk.
const WorkloadImage = "e2e.invalid/workload:1"

// Asked returns the name that a pod with the workload gets from an address on any of its networks; an error if nobody
// answers.
func (w *Cluster) Asked(ctx context.Context, from *corev1.Pod, address netip.Addr) (name string, err error) {
	worker := w.Worker(from.Spec.NodeName)
	if worker == nil {
		return "", fmt.Errorf("pod %s is on no worker", from.Name)
	}
	id, err := worker.SandboxOf(ctx, string(from.UID))
	if err != nil {
		return "", err
	}
	netNS, err := worker.NetNS(ctx, id)
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, "nsenter", "--net="+worker.Outside(netNS), filepath.Join(worker.tools(),
		"workload"), address.String()).Output()
	if err != nil {
		return "", fmt.Errorf("asking %s from %s: %w", address, from.Name, err)
	}
	return string(out), nil
}

// SandboxOf is the id of the READY sandbox of the pod with this UID.
func (r *Runtime) SandboxOf(ctx context.Context, uid string) (string, error) {
	all, err := r.Sandboxes(ctx)
	for _, s := range all {
		if s.Metadata.Uid == uid && s.State == cri.PodSandboxState_SANDBOX_READY {
			return s.Id, nil
		}
	}
	return "", errors.Join(err, fmt.Errorf("%s has no READY sandbox of the pod %s", r.Node.Name, uid))
}

// Output is the output of a pod's first container, in all of its runs that kubelet keeps.
func (w *Worker) Output(pod *corev1.Pod) (stdout, stderr string, err error) {
	runs, err := filepath.Glob(w.Outside(fmt.Sprintf("/var/log/pods/%s_%s_%s/%s/*.log", pod.Namespace, pod.Name, pod.UID,
		pod.Spec.Containers[0].Name)))
	slices.SortFunc(runs, func(a, b string) int { // their names are numbers
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	if len(runs) == 0 {
		err = errors.Join(err, fmt.Errorf("%s has no output", pod.Name))
	}
	for _, run := range runs {
		log, readErr := os.ReadFile(run)
		err = errors.Join(err, readErr)
		for line := range strings.Lines(string(log)) {
			// time, stream, F or P for a line that goes on, text
			fields := strings.SplitN(line, " ", 4)
			if len(fields) < 4 {
				continue
			}
			text := fields[3]
			if fields[2] == "P" {
				text = strings.TrimSuffix(text, "\n")
			}
			if fields[1] == "stdout" {
				stdout += text
			} else {
				stderr += text
			}
		}
	}
	return stdout, stderr, err
}

// staticPods is kubelet's folder of pods without an API server.
const staticPods = "/etc/kubernetes/manifests"

// AddStatic gives kubelet a static pod. In the API its name ends with the worker's.
func (w *Worker) AddStatic(pod *corev1.Pod) error {
	pod = pod.DeepCopy()
	pod.APIVersion, pod.Kind = "v1", "Pod"
	file := w.staticFile(pod.Name)
	// kubelet reads no file whose name begins with a dot, so never a half of one.
	next := filepath.Join(filepath.Dir(file), ".next")
	if err := os.WriteFile(next, asJSON(pod), 0o600); err != nil {
		return err
	}
	return os.Rename(next, file)
}

// RemoveStatic removes a static pod from kubelet.
func (w *Worker) RemoveStatic(name string) error { return os.Remove(w.staticFile(name)) }

func (w *Worker) staticFile(name string) string {
	return filepath.Join(w.Outside(staticPods), name+".json")
}

// StartNodeSliceController starts, on the worker, whereabouts' own controller that assigns every node a slice of a
// network. It ends with the worker.
func (w *Worker) StartNodeSliceController() error {
	programs, err := build(upstream)
	if err != nil {
		return err
	}
	cmd := w.Command(context.Background(), filepath.Join(programs, "node-slice-controller"), "--kubeconfig="+
		w.cluster.Kubeconfig())
	cmd.Env = append(cmd.Env, "WHEREABOUTS_NAMESPACE=kube-system")
	_, err = w.slicer.start(w.Node.dir, "node-slice-controller", cmd)
	return err
}
