// Package agent is the node agent. It inspects the container runtime and the CNI caches of one node. It publishes
// the result as the node's SandboxReport, with a Lease that confirms the report. Read agent.go first, then inspect.go,
// report.go and store.go.
package agent
