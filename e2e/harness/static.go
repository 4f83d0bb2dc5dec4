package harness

import (
	"context"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
)

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
