package cnicache

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strconv"

	types020 "github.com/containernetworking/cni/pkg/types/020"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/types/create"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/cniconf"
)

// parsedFile is the used content of one cache file.
type parsedFile struct {
	info                 fs.FileInfo
	problem              error // why the file could not be read in full
	namespace, name, uid string
	netns                []string
	interfaces           []string // in the container
	addresses            []v1alpha1.Address
	config                    // of the network; for Multus' own file the sources of all networks
	mentionsWhereabouts  bool // in the file, or in the configs in it
	// delegates are the networks in Multus' own file, or the network of a result.
	delegates []delegate
}

// delegate is a network of a container, by the name in its config, and its interface in the container. ifName is "" in
// Multus' own file for the first network, whose interface the container runtime names.
type delegate struct{ network, ifName string }

// cacheV1 is the kind of a result file (libcni v1.3.0, libcni/api.go, CNICacheV1). Older files are only the result.
const cacheV1 = "cniCacheV1"

const whereabouts = "whereabouts"

// mentions reports whether JSON contains "whereabouts" anywhere.
func mentions(text []byte) bool { return cniconf.Mentions(text, whereabouts) > 0 }

func (k fileKind) parse(id string, data []byte) *parsedFile {
	r := &parsedFile{mentionsWhereabouts: mentions(data)}
	if k == multusDelegates {
		r.parseDelegates(data)
	} else {
		r.parseResult(k, id, data)
	}
	if r.problem != nil {
		r.problem = fmt.Errorf("%.300s", r.problem.Error()) // the error may quote any part of the file
	}
	return r
}

// parseResult parses a result file, libcni's cachedInfo (libcni v1.3.0, libcni/api.go, cacheAdd).
func (r *parsedFile) parseResult(k fileKind, id string, data []byte) {
	var info struct {
		Kind        string          `json:"kind"`
		ContainerID string          `json:"containerId"`
		Config      []byte          `json:"config"`
		IfName      string          `json:"ifName"`
		NetworkName string          `json:"networkName"`
		NetNS       string          `json:"netns"`
		CNIArgs     [][2]string     `json:"cniArgs"`
		Result      json.RawMessage `json:"result"`
	}
	if r.problem = json.Unmarshal(data, &info); r.problem != nil {
		return
	}
	switch {
	case info.Kind == "":
		r.problem = errors.New("a result without its network")
		result, _ := decodeResult(data)
		r.addNetNS(result.sandboxes...)
		return
	case info.Kind != cacheV1:
		r.problem = fmt.Errorf("unknown kind %q", info.Kind)
		return
	case info.ContainerID != id:
		r.problem = fmt.Errorf("container %q differs from the one in the file name", info.ContainerID)
		return
	}
	r.mentionsWhereabouts = r.mentionsWhereabouts || mentions(info.Config)
	r.addNetNS(info.NetNS)
	r.addPod(info.CNIArgs)
	if max(len(info.IfName), len(info.NetworkName)) > maxName {
		r.problem = errors.New("the name of an interface or network is too long")
		return
	}
	result, err := decodeResult(info.Result)
	if err != nil {
		r.problem = fmt.Errorf("parse the result: %w", err)
	}
	r.addNetNS(result.sandboxes...)
	if r.config, err = readConfig(info.Config, k == runtimeResults); err != nil {
		r.problem = fmt.Errorf("parse the config: %w", err)
	}
	r.addresses = r.config.addresses(result.ips, info.IfName, info.NetworkName)
	r.delegates = []delegate{{r.config.name, info.IfName}}
	if !r.loopback {
		r.addInterfaces(append(result.interfaces, info.IfName))
	}
}

// parseDelegates parses Multus' own file, the list of the container's networks with each config in Bytes (Multus
// v4.2.4, pkg/multus/multus.go, saveDelegates and getIfname; pkg/types/types.go, DelegateNetConf).
func (r *parsedFile) parseDelegates(data []byte) {
	var delegates []struct {
		Bytes  []byte
		IfName string `json:"ifnameRequest"`
	}
	if r.problem = json.Unmarshal(data, &delegates); r.problem != nil {
		return
	}
	if len(delegates) == 0 {
		r.problem = errors.New("no networks")
	}
	for i, d := range delegates {
		r.mentionsWhereabouts = r.mentionsWhereabouts || mentions(d.Bytes)
		conf, err := readConfig(d.Bytes, false)
		if err != nil {
			r.problem = fmt.Errorf("parse the config of network %d: %w", i, err)
		}
		if d.IfName == "" && i > 0 {
			d.IfName = "net" + strconv.Itoa(i)
		}
		switch {
		case len(d.IfName) > maxName:
			r.problem = errors.New("the name of an interface is too long")
		case len(r.delegates) < maxDelegates:
			r.delegates = append(r.delegates, delegate{conf.name, d.IfName})
		}
		for _, s := range conf.sources {
			// A tenant may select a network any number of times. More networks than a report has are unknown.
			isSame := func(other source) bool { return other.Network == s.Network }
			if len(r.sources) <= MaxAddresses && !slices.ContainsFunc(r.sources, isSame) {
				r.sources = append(r.sources, s)
			}
		}
	}
}

// addInterfaces adds the names of interfaces in the container.
func (r *parsedFile) addInterfaces(names []string) {
	for _, name := range names {
		switch {
		case len(name) > maxName:
			r.problem = errors.New("the name of an interface is too long")
		case name != "" && len(r.interfaces) < maxKept:
			r.interfaces = append(r.interfaces, name)
		}
	}
}

// addNetNS adds absolute paths. A sandbox may also be another isolation domain (CNI specification, "ADD Success").
func (r *parsedFile) addNetNS(paths ...string) {
	for _, p := range paths {
		if filepath.IsAbs(p) && len(p) <= 4096 {
			r.netns = append(r.netns, p)
		}
	}
}

func (r *parsedFile) addPod(args [][2]string) {
	var namespace, name, uid podField
	for _, a := range args {
		switch a[0] {
		case "K8S_POD_NAMESPACE":
			namespace.add(a[1])
		case "K8S_POD_NAME":
			name.add(a[1])
		case "K8S_POD_UID":
			uid.add(a[1])
		}
	}
	r.namespace, r.name, r.uid = namespace.value, name.value, uid.value
}

// result is the used content of a CNI result. sandboxes are usually paths of network namespaces, and interfaces are the
// names of those that are in one.
type result struct {
	sandboxes, interfaces []string
	ips                   []net.IP
}

// decodeResult decodes a CNI result of any version; no bytes are an empty result, as for libcni. The library checks the
// result, but its conversion panics on an interface or address that is null (libcni v1.3.0, pkg/types/100/types.go,
// convertFrom04x).
func decodeResult(data []byte) (r result, _ error) {
	if len(data) == 0 {
		return r, nil
	}
	if _, err := create.CreateFromBytes(data); err != nil {
		return r, err
	}
	var decoded struct {
		Interfaces []*types100.Interface `json:"interfaces"`
		IPs        []*types100.IPConfig  `json:"ips"`
		IP4        *types020.IPConfig    `json:"ip4"`
		IP6        *types020.IPConfig    `json:"ip6"`
	}
	if err := json.Unmarshal(data, &decoded); err != nil {
		return r, err
	}
	for _, i := range decoded.Interfaces {
		if i == nil {
			continue
		}
		r.sandboxes = append(r.sandboxes, i.Sandbox)
		if i.Sandbox != "" {
			r.interfaces = append(r.interfaces, i.Name)
		}
	}
	for _, ip := range decoded.IPs {
		if ip != nil {
			r.ips = append(r.ips, ip.Address.IP)
		}
	}
	for _, ip := range []*types020.IPConfig{decoded.IP4, decoded.IP6} {
		if ip != nil {
			r.ips = append(r.ips, ip.IP.IP)
		}
	}
	return r, nil
}
