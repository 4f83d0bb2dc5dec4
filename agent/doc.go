// Package agent is the node agent. It inspects the container runtime and the CNI caches of one node. It publishes
// the result as the node's SandboxReport, with a Lease that confirms the report.
//
// Agent (agent.go) is the loop. NodeInspector (inspect.go) makes an Inspection from what it tracks of each sandbox
// (tracked.go), the runtime's details (details.go) and the network namespaces (netns.go). NextReport (report.go)
// makes a report from an Inspection. APIStore (store.go) writes the report and the Lease, each as an object
// (object.go), and detects restores of etcd. Confirmer (identity.go) checks that the Node object belongs to this
// machine. Watcher (watcher.go) follows the report. Health (health.go) has the metrics and probes.
package agent
