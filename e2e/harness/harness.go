// Package harness runs the real programs that the reconciler lives with, on one machine: etcd, kube-apiserver, and the
// whereabouts CNI plugin as IPAM of macvlan, called through libcni as a container runtime would, or by a real
// containerd with Multus.
//
// StartControlPlane gives a ControlPlane, NewNode a Node of it, Node.Add and Node.Del an attachment of a Sandbox.
// Without a container runtime, Node.Run plays it, kubelet and Multus. NewRuntime gives a Node the real containerd with
// pods in real sandboxes; only kubelet is then played, by the test. StartCluster gives a Cluster, where the test stands
// in for nobody: it has kubelets, a controller manager and a scheduler, and its Workers are networks of their own. It
// is slower.
//
// Any number of clusters may run side by side, in one test process or in many; they
// share nothing but the built programs. All that a cluster leaves on the machine goes
// with it, and the next run removes what remains of a killed one.
//
// The first run builds the programs from e2e/parts and e2e/containerd. That takes about
// six minutes on two cores, so the first `go test` may want -timeout 20m.
package harness

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
)

// Unsupported returns why the harness cannot run here, or "". Tests skip with it.
func Unsupported() string {
	if runtime.GOOS != "linux" {
		return "the harness needs Linux (network namespaces, macvlan), this is " + runtime.GOOS
	}
	if os.Geteuid() != 0 {
		return "the harness needs root: it makes network namespaces and links"
	}
	for tool, pkg := range map[string]string{"ip": "iproute2", "nsenter": "util-linux", "unshare": "util-linux"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Sprintf("the harness needs %q (package %s): %v", tool, pkg, err)
		}
	}
	return ""
}
