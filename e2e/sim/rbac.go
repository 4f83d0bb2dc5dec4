package sim

import "github.com/ip-reconcile/ip-reconcile/internal/fakeapi"

// forbid has RBAC forbid the product a kind of objects, or allow it again.
func (s *Simulation) forbid(resource string) {
	s.forbidden[resource] = !s.forbidden[resource]
	s.say("no permission on %s: %v", resource, s.forbidden[resource])
}

// forbids reports whether RBAC forbids a call of the product. It never forbids the Leases of nodes.
func (s *Simulation) forbids(w *call) bool {
	return w.client.product && s.forbidden[w.Resource] && (w.Resource != fakeapi.Leases || w.Namespace == kubeSystem)
}
