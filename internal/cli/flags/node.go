package flags

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/agent/cnicache"
	"github.com/ip-reconcile/ip-reconcile/agent/cri"
)

// Node are the flags for inspecting the node on which the process runs.
type Node struct {
	// Socket is the path of the container runtime's socket, and Name the node's name.
	Socket, Name                string
	results, multus, bootIDFile string
	namespaces                  []string
}

// Add adds the flags. socket is the help of --cri.
func (n *Node) Add(f *pflag.FlagSet, socket string) {
	f.StringVar(&n.Socket, "cri", "", socket)
	f.StringVar(&n.Name, "node", os.Getenv("NODE_NAME"), "name of the node on which this runs (default: $NODE_NAME)")
	f.StringVar(&n.results, "cni-results", "/var/lib/cni/results", "folder of the container runtime's CNI result cache")
	f.StringVar(&n.multus, "cni-multus", "/var/lib/cni/multus",
		"Multus' cniDir; the folders that Multus' configs in the CNI results name are read, too")
	f.StringSliceVar(&n.namespaces, "netns-dir", []string{"/run/netns", "/var/run/netns"},
		"folders of the network namespaces")
	f.StringVar(&n.bootIDFile, "boot-id-file", "/proc/sys/kernel/random/boot_id", "file with the node's boot id")
}

// NodeInspector returns the inspector of the node, which has a connection to the container runtime, and the boot id of
// this machine. ownUID is the UID of the inspecting pod, "" outside a pod.
func (n *Node) NodeInspector(ownUID string) (_ *agent.NodeInspector, bootID string, _ error) {
	if n.Name == "" {
		return nil, "", errors.New("--node must name the node on which this runs (in a pod: NODE_NAME from spec.nodeName)")
	}
	folders := map[string][]string{"--cni-results": {n.results}, "--cni-multus": {n.multus}, "--netns-dir": n.namespaces}
	for flag, paths := range folders {
		for _, path := range paths {
			if !filepath.IsAbs(path) {
				return nil, "", fmt.Errorf("%s %q: must be the absolute path of a folder", flag, path)
			}
		}
	}
	socket, err := cri.FindSocket(n.Socket)
	if err != nil {
		return nil, "", err
	}
	text, err := os.ReadFile(n.bootIDFile)
	if err != nil {
		return nil, "", fmt.Errorf("--boot-id-file: %w", err)
	}
	if bootID = strings.TrimSpace(string(text)); bootID == "" {
		return nil, "", fmt.Errorf("--boot-id-file %s: the file is empty", n.bootIDFile)
	}
	runtime, err := cri.Dial(socket)
	caches := cnicache.New(cnicache.Folders{Results: n.results, Multus: n.multus})
	return &agent.NodeInspector{Runtime: runtime, NetNSDirs: n.namespaces, OwnUID: ownUID, Caches: caches}, bootID, err
}
