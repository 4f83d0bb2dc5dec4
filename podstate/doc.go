// Package podstate reads Kubernetes objects into the few facts from which the rules conclude
// whether a pod is alive: pods (Pod, with its Phase and the addresses of its
// network-status), nodes (Node) and the node agents' reports of what the container runtimes
// run (Report, with the Lease that confirms it). It keeps nothing else of the objects, does
// no I/O and knows nothing of pools.
//
// Pod, Node and Report are in a file each; decode.go reads whole lists of them without
// decoding the fields that no rule needs.
package podstate
