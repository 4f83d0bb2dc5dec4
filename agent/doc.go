// Package agent is the node agent: it inspects one node's container runtime and CNI
// caches, and publishes what they hold as the node's SandboxReport, with a Lease that
// confirms it.
//
// Agent (agent.go) is the loop. A NodeInspector (inspect.go) makes an Inspection; what it
// remembers of each sandbox is in tracked.go, what it asks the runtime of them in
// details.go, and which network namespaces still exist in netns.go. Next (report.go) makes
// the report that follows from an Inspection. An APIStore (store.go) writes report and
// Lease, each an object (object.go), and detects by the answers whether etcd was restored.
// A Confirmer (identity.go) finds out whether the
// Node object is this machine's, a Watcher (watcher.go) follows the report, and Health
// (health.go) has the metrics and probes.
package agent
