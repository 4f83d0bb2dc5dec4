// Package v1alpha1 is the SandboxReport API: what the container runtime of one
// node really runs, written by that node's agent (package agent) and read by the
// reconciler (podstate.Report). The types are in types.go; the CRD in deploy/crds is
// generated from them.
//
// +kubebuilder:object:generate=true
// +groupName=ip-reconcile.dev
package v1alpha1

import "k8s.io/apimachinery/pkg/runtime/schema"

// Resource is SandboxReports as they are served.
func Resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "ip-reconcile.dev", Version: "v1alpha1", Resource: "sandboxreports"}
}
