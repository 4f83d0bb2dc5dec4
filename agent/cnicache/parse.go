package cnicache

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strings"

	types020 "github.com/containernetworking/cni/pkg/types/020"
	types040 "github.com/containernetworking/cni/pkg/types/040"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/types/create"
)

// parsedFile is what one file says.
type parsedFile struct {
	info                 fs.FileInfo
	problem              error // why it could not be read in full
	namespace, name, uid string
	netns                []string
	addresses            []address
	multus               bool   // its network is one of Multus'
	loopback             bool   // its network is the one that containerd gives every pod before any other
	mentionsWhereabouts  bool   // whereabouts is
	unknownPlugin        bool   // a plugin of it is not known not to run others
	cniDir               string // Multus', by its own config
	delegates            int    // of Multus' own file
}

// cacheV1 is the kind of a result file (libcni v1.3.0, libcni/api.go,
// CNICacheV1). Files of before have no kind and are the bare result.
const cacheV1 = "cniCacheV1"

// parseResult reads a result file, libcni's cachedInfo (libcni v1.3.0,
// libcni/api.go, cacheAdd).
func parseResult(id string, data []byte) *parsedFile {
	r := &parsedFile{mentionsWhereabouts: mentions(data)}
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
	if err := json.Unmarshal(data, &info); err != nil {
		r.problem = err
		return r
	}
	switch {
	case info.Kind == "":
		r.problem = errors.New("is a bare result, without the network it is of")
		if found, err := decodeResult(data); err == nil {
			r.addNetNS(found.netns...)
		}
		return r
	case info.Kind != cacheV1:
		r.problem = fmt.Errorf("is of another kind: %q", info.Kind)
		return r
	case info.ContainerID != id:
		r.problem = fmt.Errorf("is of another container than its name says: %q", info.ContainerID)
		return r
	}
	r.addNetNS(info.NetNS)
	r.addPod(info.CNIArgs)
	found, err := decodeResult(info.Result)
	if err != nil {
		r.problem = fmt.Errorf("its result: %w", err)
	}
	r.addNetNS(found.netns...)
	conf, err := readConfig(info.Config)
	if err != nil {
		r.problem = fmt.Errorf("its config: %w", err)
	}
	r.multus, r.loopback, r.unknownPlugin, r.cniDir = conf.multus, conf.loopback, conf.unknownPlugin, conf.cniDir
	r.addresses = conf.addresses(found.ips, info.IfName, info.NetworkName)
	return r
}

// parseDelegates reads Multus' own file: the networks that the container is
// given, each with its whole config in Bytes (Multus v4.2.4, pkg/multus/multus.go,
// saveDelegates; pkg/types/types.go, DelegateNetConf).
func parseDelegates(data []byte) *parsedFile {
	r := &parsedFile{mentionsWhereabouts: mentions(data)}
	var delegates []struct{ Bytes []byte }
	if r.problem = json.Unmarshal(data, &delegates); r.problem != nil {
		return r
	}
	r.delegates = len(delegates)
	if len(delegates) == 0 {
		r.problem = errors.New("names no network")
	}
	for i, d := range delegates {
		var config map[string]json.RawMessage
		if err := json.Unmarshal(d.Bytes, &config); err != nil || len(config) == 0 {
			r.problem = fmt.Errorf("network %d is without a config that can be read", i)
		}
		conf, err := readConfig(d.Bytes)
		r.unknownPlugin = r.unknownPlugin || conf.unknownPlugin || err != nil
	}
	return r
}

// addNetNS takes paths only: the sandbox of an interface may name an isolation
// domain of another sort (CNI specification, "ADD Success").
func (r *parsedFile) addNetNS(paths ...string) {
	for _, p := range paths {
		if filepath.IsAbs(p) {
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

type decodedResult struct {
	netns []string
	ips   []net.IP
}

// decodeResult decodes the bytes of a result of any CNI version. libcni's own
// reader (GetNetworkCachedResult) would open the file again, by its path and
// without a limit, and convert the result to one version; that conversion
// panics on an interface or address that is null (libcni v1.3.0,
// pkg/types/100/types.go, convertFrom04x). So only the library's decoding of
// each version is used.
func decodeResult(data []byte) (decodedResult, error) {
	var found decodedResult
	if len(data) == 0 {
		return found, nil // as libcni's reader takes it: an empty result
	}
	decoded, err := create.CreateFromBytes(data)
	if err != nil {
		return found, err
	}
	switch r := decoded.(type) {
	case *types100.Result:
		for _, i := range r.Interfaces {
			if i != nil {
				found.netns = append(found.netns, i.Sandbox)
			}
		}
		for _, ip := range r.IPs {
			if ip != nil {
				found.ips = append(found.ips, ip.Address.IP)
			}
		}
	case *types040.Result:
		for _, i := range r.Interfaces {
			if i != nil {
				found.netns = append(found.netns, i.Sandbox)
			}
		}
		for _, ip := range r.IPs {
			if ip != nil {
				found.ips = append(found.ips, ip.Address.IP)
			}
		}
	case *types020.Result:
		for _, ip := range []*types020.IPConfig{r.IP4, r.IP6} {
			if ip != nil {
				found.ips = append(found.ips, ip.IP.IP)
			}
		}
	default:
		return found, fmt.Errorf("version %q is not known here", decoded.Version())
	}
	return found, nil
}

const whereabouts = "whereabouts"

// mentions reports whether whereabouts is mentioned anywhere in JSON: in a key, a
// text, or JSON that is kept in it as base64, as both caches keep configs.
func mentions(data []byte) bool {
	if mentionedIn(string(data)) {
		return true
	}
	var v any
	return json.Unmarshal(data, &v) == nil && mentionedBy(v)
}

func mentionedBy(v any) bool {
	switch v := v.(type) {
	case string:
		if mentionedIn(v) {
			return true
		}
		if base64.StdEncoding.DecodedLen(len(v)) < len(whereabouts) {
			return false
		}
		inner, err := base64.StdEncoding.DecodeString(v)
		return err == nil && mentions(inner)
	case []any:
		for _, e := range v {
			if mentionedBy(e) {
				return true
			}
		}
	case map[string]any:
		for k, e := range v {
			if mentionedIn(k) || mentionedBy(e) {
				return true
			}
		}
	}
	return false
}

func mentionedIn(text string) bool { return strings.Contains(strings.ToLower(text), whereabouts) }
