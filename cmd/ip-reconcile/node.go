package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ip-reconcile/ip-reconcile/podstate/agent"
	"github.com/ip-reconcile/ip-reconcile/podstate/cnicache"
	"github.com/ip-reconcile/ip-reconcile/podstate/cri"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// node are the flags that say how to look at the node on which the process runs.
type node struct {
	socket, name, results, multus, bootIDFile string
	namespaces                                []string
}

func (n *node) add(f *pflag.FlagSet, socket string) {
	f.StringVar(&n.socket, "cri", "", socket)
	f.StringVar(&n.name, "node", os.Getenv("NODE_NAME"), "name of the node on which this runs (default: $NODE_NAME)")
	f.StringVar(&n.results, "cni-results", "/var/lib/cni/results", "folder of the container runtime's CNI result cache")
	f.StringVar(&n.multus, "cni-multus", "/var/lib/cni/multus", "Multus' cniDir")
	f.StringSliceVar(&n.namespaces, "netns-dir", []string{"/run/netns", "/var/run/netns"}, "folders of the network namespaces")
	f.StringVar(&n.bootIDFile, "boot-id-file", "/proc/sys/kernel/random/boot_id", "file with the node's boot id")
}

// eyes makes what looks at the node. ownUID is the UID of the pod that looks, ""
// outside a pod.
func (n *node) eyes(ownUID string) (*agent.Eyes, *cri.Runtime, error) {
	if n.name == "" {
		return nil, nil, errors.New("--node must name the node on which this runs (in a pod: NODE_NAME from spec.nodeName)")
	}
	for flag, path := range map[string]string{"--cni-results": n.results, "--cni-multus": n.multus} {
		if !filepath.IsAbs(path) {
			return nil, nil, fmt.Errorf("%s %q: must be the absolute path of a folder", flag, path)
		}
	}
	for _, path := range n.namespaces {
		if !filepath.IsAbs(path) {
			return nil, nil, fmt.Errorf("--netns-dir %q: must be the absolute path of a folder", path)
		}
	}
	socket, err := cri.Find(n.socket)
	if err != nil {
		return nil, nil, err
	}
	runtime, err := cri.Dial(socket)
	if err != nil {
		return nil, nil, err
	}
	return &agent.Eyes{
		Runtime: runtime, NetNSDirs: n.namespaces, OwnUID: ownUID,
		Caches: cnicache.New(cnicache.Folders{Results: n.results, Multus: n.multus}),
	}, runtime, nil
}

// onNode makes a cluster's source one that looks at this node as well, here and now.
func (n *node) onNode() (func(reconciler.Source) reconciler.Source, error) {
	eyes, _, err := n.eyes("")
	if err != nil {
		return nil, err
	}
	bootID, err := n.bootID()
	if err != nil {
		return nil, err
	}
	return func(cluster reconciler.Source) reconciler.Source {
		return &reconciler.OnNode{Source: cluster, Node: n.name, BootID: bootID, Look: eyes.Report}
	}, nil
}

// bootID reads the boot id of this machine.
func (n *node) bootID() (string, error) {
	text, err := os.ReadFile(n.bootIDFile)
	if err != nil {
		return "", fmt.Errorf("--boot-id-file: %w", err)
	}
	id := strings.TrimSpace(string(text))
	if id == "" {
		return "", fmt.Errorf("--boot-id-file %s: is empty", n.bootIDFile)
	}
	return id, nil
}
