package cnicache

import (
	"encoding/json"
	"net"

	types020 "github.com/containernetworking/cni/pkg/types/020"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/types/create"
)

// decodeResult returns the interfaces' sandboxes (usually paths of network namespaces) and the addresses of a CNI
// result of any version; no bytes are an empty result, as for libcni. The library checks the result, but its
// conversion panics on an interface or address that is null (libcni v1.3.0, pkg/types/100/types.go, convertFrom04x).
func decodeResult(data []byte) (sandboxes []string, ips []net.IP, err error) {
	if len(data) == 0 {
		return nil, nil, nil
	}
	if _, err := create.CreateFromBytes(data); err != nil {
		return nil, nil, err
	}
	var result struct {
		Interfaces []*types100.Interface `json:"interfaces"`
		IPs        []*types100.IPConfig  `json:"ips"`
		IP4        *types020.IPConfig    `json:"ip4"`
		IP6        *types020.IPConfig    `json:"ip6"`
	}
	if err := json.Unmarshal(data, &result); err != nil {
		return nil, nil, err
	}
	for _, i := range result.Interfaces {
		if i != nil {
			sandboxes = append(sandboxes, i.Sandbox)
		}
	}
	for _, ip := range result.IPs {
		if ip != nil {
			ips = append(ips, ip.Address.IP)
		}
	}
	for _, ip := range []*types020.IPConfig{result.IP4, result.IP6} {
		if ip != nil {
			ips = append(ips, ip.IP.IP)
		}
	}
	return sandboxes, ips, nil
}
