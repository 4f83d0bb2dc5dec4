package harness

import "path/filepath"

// Wiring is the CNI configuration of a runtime: by default Multus is its only
// network, gives every pod an eth0 with a local address, and adds to it what the
// pod's annotation asks for.
type Wiring struct {
	Default  *Network       // the default network of Multus, instead of local addresses
	Local    map[string]any // the plugin of local addresses, instead of macvlan
	Plain    *Network       // the runtime's own network, without Multus
	Blockers []CNIBlocker   // around the runtime's network; those of a NAD are its own
}

// conflist is the runtime's only network.
func (r *Runtime) conflist(w Wiring, plugins string) []byte {
	wire := r.Node.cluster.wire()
	if w.Plain != nil {
		return w.Plain.configList(wire, w.Blockers)
	}
	delegate := map[string]any{
		"cniVersion": "1.0.0", "name": "local", "type": "macvlan", "master": r.Node.master, "mode": "bridge",
		"ipam": map[string]any{"type": "host-local", "ranges": [][]map[string]string{{{"subnet": "10.88.0.0/16"}}}},
	}
	if w.Local != nil {
		delegate = w.Local
	}
	if w.Default != nil {
		delegate = w.Default.asPlugin(wire, nil, map[string]any{"cniVersion": "1.0.0", "name": w.Default.Name})
	}
	chain := []any{map[string]any{
		"type": "multus", "kubeconfig": r.Node.cluster.Kubeconfig(), "binDir": plugins, "cniDir": MultusDir,
		"logFile": filepath.Join(r.Node.dir, "multus.log"), "logLevel": "verbose", "delegates": []any{delegate},
	}}
	for _, b := range w.Blockers {
		if b.Before {
			chain = append([]any{b.asPlugin()}, chain...)
		} else {
			chain = append(chain, b.asPlugin())
		}
	}
	return asJSON(map[string]any{"cniVersion": "1.0.0", "name": "multus-cni-network", "plugins": chain})
}
