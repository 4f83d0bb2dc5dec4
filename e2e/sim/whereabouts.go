package sim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	wbclient "github.com/k8snetworkplumbingwg/whereabouts/pkg/generated/clientset/versioned"
	wbkubernetes "github.com/k8snetworkplumbingwg/whereabouts/pkg/storage/kubernetes"
	wbtypes "github.com/k8snetworkplumbingwg/whereabouts/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
)

const kubeSystem = "kube-system"

// plugins are clients of whereabouts' own code. Creating one takes longer than a history, so histories share them.
type plugins struct {
	free []*plugin
	// names is a folder with a configuration_path for each node, which has the node's name.
	names string
}

type plugin struct {
	*wbkubernetes.Client
	as atomic.Pointer[client]
	// slices is the answer to a request for the NodeSlicePool, which the next such request gets as well; nil for none.
	slices  []byte
	keeping bool // the next answer is kept there
}

// RoundTrip implements http.RoundTripper.
func (p *plugin) RoundTrip(r *http.Request) (*http.Response, error) {
	isOfSlices := strings.Contains(r.URL.Path, "/nodeslicepools/")
	if isOfSlices && p.slices != nil {
		kept := fakeapi.Answer{Status: http.StatusOK, Body: p.slices}
		p.slices = nil
		return kept.Response(r)
	}
	resp, err := p.as.Load().RoundTrip(r)
	if isOfSlices && p.keeping && err == nil && resp.StatusCode == http.StatusOK {
		p.slices, err = io.ReadAll(resp.Body)
		resp.Body, p.keeping = io.NopCloser(bytes.NewReader(p.slices)), false
	}
	return resp, err
}

// readSlices reads the NodeSlicePool as a program of whereabouts does first, for the name of its Lease. Where that
// fails or the node has no slice, the program crashes (v0.9.4, pkg/storage/kubernetes/ipam.go, newLeaderElector returns
// nil). Here this program would; so the answer is read before, and kept for that request.
func (p *plugin) readSlices(ctx context.Context, ipam *wbkubernetes.KubernetesIPAM, node string) error {
	p.slices, p.keeping = nil, true
	_, err := wbkubernetes.GetNodeSlicePoolRange(ctx, ipam, node)
	return err
}

// nodePath is the configuration_path of a node.
func (ps *plugins) nodePath(node string) string { return filepath.Join(ps.names, node) }

// writeNames writes the folder of names.
func (ps *plugins) writeNames(folder string, nodes int) error {
	ps.names = folder
	for i := range nodes {
		node := fmt.Sprint("n", i)
		if err := os.Mkdir(ps.nodePath(node), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(ps.nodePath(node), "nodename"), []byte(node), 0o600); err != nil {
			return err
		}
	}
	return nil
}

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

// rangeConfig is the range of a network as whereabouts' program reads it from a CNI configuration.
func (n *network) rangeConfig() wbtypes.RangeConfiguration {
	c := wbtypes.RangeConfiguration{Range: n.cidr.String(), RangeStart: net.ParseIP(n.start), RangeEnd: net.ParseIP(n.end)}
	if n.exclude != "" {
		c.OmitRanges = []string{n.exclude}
	}
	return c
}

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
			Name: a.of.nad, Type: "whereabouts", IPRanges: []wbtypes.RangeConfiguration{a.of.rangeConfig()},
			OverlappingRanges: !a.of.unchecked, NetworkName: a.of.name,
			LeaderLeaseDuration: wbtypes.DefaultLeaderLeaseDuration,
			LeaderRenewDeadline: wbtypes.DefaultLeaderRenewDeadline + int(notAtOnce.Milliseconds()),
			LeaderRetryPeriod:   wbtypes.DefaultLeaderRetryPeriod + int(notAtOnce.Milliseconds())/2,
			PodNamespace:        a.pod.namespace, PodName: a.pod.name,
		},
	}
	if a.of.sliceBits > 0 {
		ipam.Config.NodeSliceSize, ipam.Config.ConfigurationPath = a.of.sliceSize(), s.plugins.nodePath(a.node.name)
	}
	limit := wbtypes.AddTimeLimit
	if mode == wbtypes.Deallocate {
		limit = wbtypes.DelTimeLimit
	}
	s.running++
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		var ips []net.IPNet
		var err error
		if a.of.sliceBits > 0 {
			err = p.readSlices(ctx, ipam, a.node.name)
		}
		if err == nil {
			ips, err = wbkubernetes.IPManagement(ctx, mode, ipam.Config, ipam)
		}
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
