//go:build tools

// Package parts pins the parts of the end-to-end tests: programs of other projects, built from their modules at the
// versions in go.mod. It is a module of its own so that none of those versions reaches the product.
package parts

import (
	_ "github.com/containernetworking/plugins/plugins/ipam/host-local"
	_ "github.com/containernetworking/plugins/plugins/main/bridge"
	_ "github.com/containernetworking/plugins/plugins/main/loopback"
	_ "github.com/containernetworking/plugins/plugins/main/macvlan"
	_ "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1" // for its CRD
	// and for its CRDs
	_ "github.com/k8snetworkplumbingwg/whereabouts/cmd"
	_ "github.com/k8snetworkplumbingwg/whereabouts/cmd/controlloop"
	_ "github.com/k8snetworkplumbingwg/whereabouts/cmd/nodeslicecontroller"
	_ "github.com/k8snetworkplumbingwg/whereabouts/cmd/reconciler"
	_ "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus"
)
