package sim

import (
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
)

// powerCycle starts a machine that is off, or switches it off, for good or for a time.
func (s *Simulation) powerCycle(n *node, how int) {
	if !n.up {
		s.power(n, true)
		return
	}
	s.power(n, false)
	if how%2 == 0 {
		s.after(s.between(10*time.Second, time.Minute), func() { s.power(n, true) })
	}
}

// replace starts another machine under the name of one that is off.
func (s *Simulation) replace(n *node) {
	s.power(n, false)
	n.machine++
	n.boot, n.sandboxes = 0, nil
	s.say("another machine is called %s", n.name)
	s.power(n, true)
}

func (s *Simulation) link(n *node, linked bool) {
	s.say("%s reaches the API server: %v", n.name, linked)
	if linked {
		n.connect()
		s.wake(n)
		return
	}
	s.register(n)
	n.linked = false
	s.after(40*time.Second, func() {
		if !n.reaches() && !s.away {
			s.writeNode(n, "Unknown", nil)
		}
	})
}

// deleteNode deletes the object of a machine that is off.
func (s *Simulation) deleteNode(n *node) {
	if !n.up && !s.away {
		s.api.Delete(fakeapi.At(fakeapi.Nodes, "", n.name))
		s.say("Node %s is deleted", n.name)
	}
}

// taint marks a machine that is off as out of service, until it is back.
func (s *Simulation) taint(n *node) {
	if n.up || s.away {
		return
	}
	s.edit(fakeapi.At(fakeapi.Nodes, "", n.name), "operator", func(c map[string]any) {
		section(c, "spec")["taints"] = []any{map[string]any{"key": "node.kubernetes.io/out-of-service",
			"value": "nodeshutdown", "effect": "NoExecute"}}
	})
	s.say("%s is tainted out-of-service", n.name)
}

// untaint removes the taint of a machine that is back, as an operator must: Kubernetes evicts its pods, and the taint
// proves that the machine is dead once it is not Ready. While the API server is away, it waits.
func (s *Simulation) untaint(n *node) {
	if s.away {
		s.after(100*time.Millisecond, func() { s.untaint(n) })
		return
	}
	if !n.up {
		return
	}
	s.edit(fakeapi.At(fakeapi.Nodes, "", n.name), "operator",
		func(c map[string]any) { delete(section(c, "spec"), "taints") })
}
