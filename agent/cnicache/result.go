package cnicache

import (
	"fmt"
	"net"

	types020 "github.com/containernetworking/cni/pkg/types/020"
	types040 "github.com/containernetworking/cni/pkg/types/040"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/types/create"
)

// decodedResult is what is used of a CNI result.
type decodedResult struct {
	sandboxes []string // of its interfaces: mostly paths of network namespaces
	ips       []net.IP
}

// decodeResult decodes a CNI result of any version. libcni's own
// reader (GetNetworkCachedResult) would open the file again, by its path and
// without a limit, and convert the result to one version; that conversion
// panics on an interface or address that is null (libcni v1.3.0,
// pkg/types/100/types.go, convertFrom04x). So only the library's decoding of
// each version is used. No bytes are an empty result, as for libcni.
func decodeResult(data []byte) (decodedResult, error) {
	if len(data) == 0 {
		return decodedResult{}, nil
	}
	decoded, err := create.CreateFromBytes(data)
	if err != nil {
		return decodedResult{}, err
	}
	switch r := decoded.(type) {
	case *types100.Result:
		return from100(r), nil
	case *types040.Result:
		return from040(r), nil
	case *types020.Result:
		return from020(r), nil
	}
	return decodedResult{}, fmt.Errorf("version %q is not known here", decoded.Version())
}

func from100(r *types100.Result) (d decodedResult) {
	for _, i := range r.Interfaces {
		if i != nil {
			d.sandboxes = append(d.sandboxes, i.Sandbox)
		}
	}
	for _, ip := range r.IPs {
		if ip != nil {
			d.ips = append(d.ips, ip.Address.IP)
		}
	}
	return d
}

func from040(r *types040.Result) (d decodedResult) {
	for _, i := range r.Interfaces {
		if i != nil {
			d.sandboxes = append(d.sandboxes, i.Sandbox)
		}
	}
	for _, ip := range r.IPs {
		if ip != nil {
			d.ips = append(d.ips, ip.Address.IP)
		}
	}
	return d
}

func from020(r *types020.Result) (d decodedResult) {
	for _, ip := range []*types020.IPConfig{r.IP4, r.IP6} {
		if ip != nil {
			d.ips = append(d.ips, ip.IP.IP)
		}
	}
	return d
}
