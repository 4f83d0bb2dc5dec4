package cnicache

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// MaxBytes is the most bytes of JSON that the addresses, interfaces and MayCarry of a sandbox have in a SandboxReport.
// Tenants choose the number of the addresses and the names in them, a node has 110 pods by default, and the admission
// policy (deploy/agent/admission.yaml) denies a report of more than 768 KiB. The 16 addresses of a pod with eight
// interfaces, two addresses on each and ordinary names have less.
const MaxBytes = 6 << 10

// Fit leaves out of a sandbox what exceeds MaxAddresses or limit bytes of JSON. It reports whether an address or an
// interface is missing now. The same sandbox always loses the same.
//
// The sandbox then has AddressesUnread, so nothing is concluded from what is missing, and MayCarry has the networks of
// the missing addresses, too. A MayCarry that does not fit names the networks without their ranges, which means all
// ranges. If that does not fit, it is missing, which means any network of the pod.
//
// The addresses of whereabouts are kept first. Another plugin may have assigned the others.
func Fit(s *v1alpha1.Sandbox, limit int) (isCut bool) {
	if size(s.Addresses)+size(s.Interfaces)+size(s.MayCarry) <= limit &&
		max(len(s.Addresses), len(s.Interfaces), len(s.MayCarry)) <= MaxAddresses {
		return false
	}
	areNetworksKnown, networks := !s.AddressesUnread || len(s.MayCarry) > 0, slices.Clone(s.MayCarry)
	ofAll := SortedNetworks(slices.Concat(networks, networksOf(s.Addresses)))
	rest := limit - min(size(ofAll), limit/2) // for the addresses and interfaces
	forNetworks := limit - rest
	byOrigin := slices.Clone(s.Addresses)
	slices.SortStableFunc(byOrigin, func(a, b v1alpha1.Address) int {
		switch {
		case a.Unattributed == b.Unattributed:
			return 0
		case b.Unattributed:
			return -1
		}
		return 1
	})
	addresses := byOrigin[:countFitting(byOrigin, &rest)]
	networks = append(networks, networksOf(byOrigin[len(addresses):])...)
	interfaces := s.Interfaces[:countFitting(s.Interfaces, &rest)]
	isCut = len(addresses) < len(s.Addresses) || len(interfaces) < len(s.Interfaces)
	slices.SortFunc(addresses, compareAddresses)
	s.Addresses, s.Interfaces, s.MayCarry = addresses, interfaces, nil
	s.AddressesUnread = s.AddressesUnread || isCut
	if areNetworksKnown {
		s.MayCarry = fitNetworks(networks, forNetworks+rest)
	}
	return isCut
}

func networksOf(addresses []v1alpha1.Address) (networks []v1alpha1.Network) {
	for _, a := range addresses {
		networks = append(networks, v1alpha1.Network{Range: a.Range, NetworkName: a.NetworkName})
	}
	return networks
}

// fitNetworks returns networks in at most limit bytes, without their ranges if necessary, or none.
func fitNetworks(networks []v1alpha1.Network, limit int) []v1alpha1.Network {
	fits := func() bool {
		networks = SortedNetworks(networks)
		return size(networks) <= limit && len(networks) <= MaxAddresses
	}
	if fits() {
		return networks
	}
	for i := range networks {
		networks[i].Range = ""
	}
	if fits() {
		return networks
	}
	return nil
}

// countFitting returns how many of the items, from the first on, fit into rest and into a report, and takes their
// bytes from rest.
func countFitting[T any](items []T, rest *int) (n int) {
	for n < min(len(items), MaxAddresses) {
		bytes := size(items[n : n+1])
		if bytes > *rest {
			break
		}
		*rest -= bytes
		n++
	}
	return n
}

// SortedNetworks sorts networks and drops duplicates.
func SortedNetworks(all []v1alpha1.Network) []v1alpha1.Network {
	slices.SortFunc(all, func(a, b v1alpha1.Network) int {
		return cmp.Or(strings.Compare(a.Range, b.Range), strings.Compare(a.NetworkName, b.NetworkName))
	})
	return slices.Compact(all)
}

// size returns the bytes of the items in the JSON of a list.
func size[T any](items []T) (n int) {
	for _, item := range items {
		text, _ := json.Marshal(item) // texts and flags always have JSON
		n += len(text) + len(",")
	}
	return n
}
