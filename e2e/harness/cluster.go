package harness

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Cluster is a ControlPlane with all that Kubernetes has: a controller manager, a scheduler, and workers with
// kubelet, containerd and a network of their own. The test simulates no component. Only Services are unreachable,
// except the API server's own, because kube-proxy is missing.
type Cluster struct {
	*ControlPlane
	Workers []*Worker // worker-1, worker-2, ...

	parts       string // the program of many names that is kubelet and more
	shared      bool   // the pods' default network uses whereabouts
	subnet      subnet
	controllers *process
	scheduler   *process
}

// StartCluster starts a cluster that runs until the test ends. If shared is true, the pods' default network uses
// whereabouts too: eth0 of every pod is in the pool of DefaultPool.
func StartCluster(t testing.TB, workers int, shared bool) *Cluster {
	t.Helper()
	w, err := newCluster(workers)
	if err == nil {
		w.shared = shared
		err = w.start(t.Context())
	}
	if w != nil {
		t.Cleanup(func() {
			if t.Failed() {
				w.logTails(t)
			}
			if err := w.Close(); err != nil {
				t.Errorf("removing what the cluster left: %v", err)
			}
		})
	}
	if err != nil {
		t.Fatalf("starting the cluster: %v", err)
	}
	return w
}

// NewCluster is StartCluster outside of tests. On an error it returns what started, for Close.
func NewCluster(ctx context.Context, workers int) (*Cluster, error) {
	w, err := newCluster(workers)
	if err != nil {
		return w, err
	}
	return w, w.start(ctx)
}

// newCluster builds the parts and reserves a place on the machine. Nothing runs yet.
func newCluster(workers int) (*Cluster, error) {
	if why := ContainerdV2.Unsupported(); why != "" {
		return nil, errors.New(why)
	}
	if workers > mostWorkers {
		return nil, fmt.Errorf("a cluster has no room for more than %d workers", mostWorkers)
	}
	for _, k := range []kit{core, containerdV2, multus, own} { // not in the time that a start may take
		if _, err := build(k); err != nil {
			return nil, err
		}
	}
	parts, err := build(clusterKit)
	if err != nil {
		return nil, err
	}
	subnet, err := freeSubnet()
	if err != nil {
		return nil, err
	}
	// The Service "kubernetes" gets the first address of its range. If the API server itself has that address, pods reach
	// it as in any cluster.
	c, err := newControlPlane(subnet.api(), 443, []string{
		"--service-cluster-ip-range=" + subnet.services(), "--kubelet-preferred-address-types=InternalIP",
	})
	if err != nil {
		return nil, err
	}
	c.full = true
	w := &Cluster{ControlPlane: c, parts: filepath.Join(parts, "clusterparts"), subnet: subnet}
	for i := range workers {
		w.Workers = append(w.Workers, newWorker(w, i+1))
	}
	return w, nil
}

// podNetwork is the default network of a worker's pods.
func (w *Cluster) podNetwork(n int) map[string]any {
	if w.shared {
		return w.subnet.sharedPodNetwork()
	}
	return w.subnet.podNetwork(n)
}

// DefaultPool is the IPPool of the pods' default network.
func (w *Cluster) DefaultPool() string { return w.subnet.host(0) + "-24" }

func (w *Cluster) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := w.addSwitches(); err != nil {
		return fmt.Errorf("making the network: %w", err)
	}
	var together errgroup.Group
	together.Go(func() error {
		if err := w.ControlPlane.start(ctx); err != nil {
			return err
		}
		return w.startControllers()
	})
	for _, worker := range w.Workers {
		together.Go(func() error {
			if err := worker.install(); err != nil {
				return fmt.Errorf("preparing %s: %w", worker.Name, err)
			}
			return worker.Runtime.Boot(ctx)
		})
	}
	if err := together.Wait(); err != nil {
		return err
	}
	tools, err := build(own)
	if err != nil {
		return err
	}
	if err := w.ImportImage(ctx, WorkloadImage, filepath.Join(tools, "workload")); err != nil {
		return err
	}
	for _, worker := range w.Workers {
		if err := worker.StartKubelet(); err != nil {
			return err
		}
	}
	return w.waitSchedulable(ctx)
}

// waitSchedulable waits until pods can be created, and run on every worker.
func (w *Cluster) waitSchedulable(ctx context.Context) error {
	for _, worker := range w.Workers {
		if err := worker.WaitReady(ctx); err != nil {
			return err
		}
	}
	return poll(ctx, func(ctx context.Context) (bool, error) {
		_, err := w.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
}

func (w *Cluster) startControllers() (err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	flags := []string{
		"--kubeconfig=" + w.Kubeconfig(), "--leader-elect=false", "--bind-address=" + w.address.String(), "--profiling=false",
		"--authentication-kubeconfig=" + w.Kubeconfig(), "--authorization-kubeconfig=" + w.Kubeconfig(),
	}
	w.scheduler, err = startProcess(w.parts, w.run.dir, "kube-scheduler", "", flags...)
	if err != nil {
		return err
	}
	w.controllers, err = startProcess(w.parts, w.run.dir, "kube-controller-manager", "", append(flags,
		"--service-account-private-key-file="+w.credentials.key, "--root-ca-file="+w.credentials.cert,
		"--flex-volume-plugin-dir="+filepath.Join(w.run.dir, "volume-plugins"), // the controller creates it
		fmt.Sprint("--node-monitor-grace-period=", nodeGrace), "--node-monitor-period=1s")...)
	return err
}

func (w *Cluster) stopControllers() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.scheduler.kill()
	w.controllers.kill()
}

// Close ends everything and removes its traces from the machine.
func (w *Cluster) Close() error {
	var errs []error
	for _, worker := range w.Workers {
		errs = append(errs, worker.close())
	}
	w.stopControllers()
	return errors.Join(append(errs, w.ControlPlane.Close())...)
}

// Worker is the worker by its name.
func (w *Cluster) Worker(name string) *Worker {
	for _, worker := range w.Workers {
		if worker.Name == name {
			return worker
		}
	}
	return nil
}

// nodeGrace is how long a silent node counts as ready; kubelets report four times as often.
const nodeGrace = 12 * time.Second

// nodeReady reports whether pods may be scheduled to a node.
func nodeReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return len(node.Spec.Taints) == 0
		}
	}
	return false
}
