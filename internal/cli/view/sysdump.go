package view

import "github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"

// Sysdump is the manifest of a bundle, and the document of sysdump.
type Sysdump struct {
	Header
	// Redacted is true where pods, namespaces, nodes and workloads have other names.
	Redacted bool `json:"redacted"`
	snapshot.Manifest
	// Files are the files of the bundle.
	Files []string `json:"files"`
	// Missing are the parts that could not be collected, each with the cause.
	Missing []string `json:"missing"`
}
