package document

import "github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"

// Sysdump is the manifest of a bundle, and the document of sysdump.
type Sysdump struct {
	Header
	// Redacted is true where pods, namespaces, nodes and workloads have other names.
	Redacted bool `json:"redacted"`
	// Files are the other files of the bundle.
	Files []string `json:"files"`
	// Missing are the parts that could not be collected, each with the cause.
	Missing []string `json:"missing"`
	// Limits are sentences about what a bundle has at most.
	Limits []string `json:"limits"`
	// Judged has what was observed beside objects; absent where the cluster could not be read.
	Judged *snapshot.Facts `json:"judged,omitempty"`
}
