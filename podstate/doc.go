// Package podstate reads Kubernetes objects into the facts that decide whether a pod is alive: pods (Pod), nodes (Node)
// and the reports of node agents (Report). It keeps no other fields, does no I/O and does not depend on pools.
//
// Pod, Node and Report have a file each. decode.go decodes lists of them without the fields that no rule reads.
package podstate
