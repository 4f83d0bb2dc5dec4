// Package podstate knows who is alive: what a pod object proves, what a node
// proves, and what a node agent's report of its container runtime proves. It
// reads objects into the few facts that a rule needs and keeps nothing else of
// them; it does no I/O and knows nothing of pools.
package podstate
