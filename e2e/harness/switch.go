package harness

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Links on a node.
const (
	nodeBridge  = "br0" // has its address, its pods and the main cable
	mainCable   = "eth0"
	secondCable = "eth1" // under the secondary networks
)

// addSwitches creates the two bridges that join the nodes: one for nodes and pods, with a cable to the API server, one
// for the secondary networks. They are in a network namespace of their own, beyond the machine's packet filters.
func (w *Cluster) addSwitches() error {
	if err := newNetNS(w.switches()); err != nil {
		return err
	}
	api := linkPrefix(w.run.id) + "api"
	if err := ipBatch(nil,
		"link add "+api+" type veth peer name api netns "+w.switches(),
		"address add "+w.address.String()+"/24 dev "+api,
		"link set "+api+" up"); err != nil {
		return err
	}
	return w.atSwitches(
		"link add main up type bridge",
		"link add second up type bridge",
		"link set api up master main")
}

// switches is the path of the network namespace of the bridges.
func (w *Cluster) switches() string { return filepath.Join(w.run.dir, "switches") }

func (w *Cluster) atSwitches(lines ...string) error {
	return ipBatch([]string{"nsenter", "--net=" + w.switches()}, lines...)
}

// plugIn connects a worker's network namespace, that of a process.
func (w *Cluster) plugIn(n int, pid string) error {
	main, second := plug("main", n), plug("second", n)
	for _, p := range []string{main, second} {
		// The network namespace of an earlier boot is gone, or ends.
		w.atSwitches("link del " + p)
	}
	err := w.atSwitches(
		"link add "+main+" up master main type veth peer name "+mainCable+" netns "+pid,
		"link add "+second+" up master second type veth peer name "+secondCable+" netns "+pid)
	if err != nil {
		return err
	}
	return ipBatch([]string{"nsenter", "--net=/proc/" + pid + "/ns/net"},
		"link set lo up",
		// A bridge keeps an address that is set, whatever joins it.
		"link add "+nodeBridge+" address "+w.subnet.mac(n)+" type bridge",
		"link set "+mainCable+" up master "+nodeBridge,
		"address add "+w.subnet.node(n)+"/24 dev "+nodeBridge,
		"link set "+nodeBridge+" up",
		"link set "+secondCable+" up")
}

// plug is the end of a worker's cable at the switch.
func plug(cable string, n int) string { return fmt.Sprint(cable, n) }

// ipBatch gives ip(8) several commands, through another program if one is given.
func ipBatch(by []string, lines ...string) error {
	args := append(slices.Clone(by), "ip", "-batch", "-")
	_, err := commandWith(strings.Join(lines, "\n")+"\n", args[0], args[1:]...)
	return err
}
