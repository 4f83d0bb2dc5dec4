// Package v1alpha1 has the SandboxReport API. The agent of a node (package agent) reports there what its container
// runtime runs, and the reconciler reads it (podstate.Report). The CRD in deploy/crds is generated from types.go.
//
// +kubebuilder:object:generate=true
// +groupName=ip-reconcile.dev
package v1alpha1

import "k8s.io/apimachinery/pkg/runtime/schema"

// Resource returns the resource of SandboxReports.
func Resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "ip-reconcile.dev", Version: "v1alpha1", Resource: "sandboxreports"}
}
