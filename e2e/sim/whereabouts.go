package sim

import (
	"context"
	"net/http"
	"net/netip"
	"sync/atomic"

	wbclient "github.com/k8snetworkplumbingwg/whereabouts/pkg/generated/clientset/versioned"
	wbkubernetes "github.com/k8snetworkplumbingwg/whereabouts/pkg/storage/kubernetes"
	wbtypes "github.com/k8snetworkplumbingwg/whereabouts/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const kubeSystem = "kube-system"

// plugins are clients of whereabouts' own code. Creating one takes longer than a history, so histories share them.
type plugins struct{ free []*plugin }

type plugin struct {
	*wbkubernetes.Client
	as atomic.Pointer[client]
}

// RoundTrip implements http.RoundTripper.
func (p *plugin) RoundTrip(r *http.Request) (*http.Response, error) { return p.as.Load().RoundTrip(r) }

func (ps *plugins) take(as *client) (*plugin, error) {
	if n := len(ps.free); n > 0 {
		p := ps.free[n-1]
		ps.free = ps.free[:n-1]
		p.as.Store(as)
		return p, nil
	}
	p := &plugin{}
	p.as.Store(as)
	config := &rest.Config{Host: "http://simulation", Transport: p, QPS: -1}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	wb, err := wbclient.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	p.Client = wbkubernetes.NewKubernetesClient(wb, core)
	return p, nil
}

func (ps *plugins) giveBack(p *plugin) { ps.free = append(ps.free, p) }

// cni calls whereabouts v0.9.4's own ADD or DEL, as its program does (cmd/whereabouts.go), and calls done in the
// simulation when it has ended. The client is the process: when it is killed, its requests go nowhere.
func (s *Simulation) cni(mode int, a *attachment, as *client, done func(netip.Addr, error)) {
	p, err := s.plugins.take(as)
	if err != nil {
		s.fail("set up whereabouts: %v", err)
		return
	}
	ipam := &wbkubernetes.KubernetesIPAM{
		Client: *p.Client, Namespace: kubeSystem, ContainerID: a.id, IfName: a.ifName,
		Config: wbtypes.IPAMConfig{
			Name: a.net.nad, Type: "whereabouts", IPRanges: []wbtypes.RangeConfiguration{{Range: a.net.cidr.String()}},
			OverlappingRanges: !a.net.unchecked, NetworkName: a.net.name,
			LeaderLeaseDuration: wbtypes.DefaultLeaderLeaseDuration,
			LeaderRenewDeadline: wbtypes.DefaultLeaderRenewDeadline + int(notAtOnce.Milliseconds()),
			LeaderRetryPeriod:   wbtypes.DefaultLeaderRetryPeriod + int(notAtOnce.Milliseconds())/2,
			PodNamespace:        a.pod.namespace, PodName: a.pod.name,
		},
	}
	limit := wbtypes.AddTimeLimit
	if mode == wbtypes.Deallocate {
		limit = wbtypes.DelTimeLimit
	}
	s.running++
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		ips, err := wbkubernetes.IPManagement(ctx, mode, ipam.Config, ipam)
		cancel()
		var ip netip.Addr
		if err == nil && len(ips) > 0 {
			ip, _ = netip.AddrFromSlice(ips[0].IP)
		}
		as.post(func() {
			s.running--
			s.plugins.giveBack(p)
			done(ip.Unmap(), err)
		})
	}()
}
