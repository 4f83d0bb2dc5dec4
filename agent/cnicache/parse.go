package cnicache

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// parsedFile is the content of one cache file, as far as it is used.
type parsedFile struct {
	info                 fs.FileInfo
	problem              error // why it could not be read in full
	namespace, name, uid string
	netns                []string
	addresses            []v1alpha1.Address
	config                    // of the network; of Multus' own file the sources of all networks
	mentionsWhereabouts  bool // anywhere in the file, or in the configs in it
	delegates            int  // number of networks in Multus' own file
}

// cacheV1 is the kind of a result file (libcni v1.3.0, libcni/api.go,
// CNICacheV1). Older files have no kind and are the bare result.
const cacheV1 = "cniCacheV1"

const whereabouts = "whereabouts"

// mentions reports whether JSON mentions whereabouts anywhere, also with escapes.
func mentions(text []byte) bool {
	var v any
	_ = json.Unmarshal(text, &v)
	plain, _ := json.Marshal(v)
	return bytes.Contains(bytes.ToLower(append(plain, text...)), []byte(whereabouts))
}

// parse reads a file of a kind.
func (k fileKind) parse(id string, data []byte) *parsedFile {
	var r *parsedFile
	if k == multusDelegates {
		r = parseDelegates(data)
	} else {
		r = parseResult(id, data)
	}
	if r.problem != nil {
		r.problem = fmt.Errorf("%.300s", r.problem.Error()) // it may quote any length of the file
	}
	return r
}

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
		sandboxes, _, _ := decodeResult(data)
		r.addNetNS(sandboxes...)
		return r
	case info.Kind != cacheV1:
		r.problem = fmt.Errorf("is of another kind: %q", info.Kind)
		return r
	case info.ContainerID != id:
		r.problem = fmt.Errorf("is of another container than its name says: %q", info.ContainerID)
		return r
	}
	r.mentionsWhereabouts = r.mentionsWhereabouts || mentions(info.Config)
	r.addNetNS(info.NetNS)
	r.addPod(info.CNIArgs)
	if max(len(info.IfName), len(info.NetworkName)) > maxName {
		r.problem = errors.New("names an interface or network that its own name has no room for")
		return r
	}
	sandboxes, ips, err := decodeResult(info.Result)
	if err != nil {
		r.problem = fmt.Errorf("its result: %w", err)
	}
	r.addNetNS(sandboxes...)
	conf, err := readConfig(info.Config)
	if err != nil {
		r.problem = fmt.Errorf("its config: %w", err)
	}
	r.config = conf
	r.addresses = conf.addresses(ips, info.IfName, info.NetworkName)
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
		r.mentionsWhereabouts = r.mentionsWhereabouts || mentions(d.Bytes)
		conf, err := readConfig(d.Bytes)
		if err != nil {
			r.problem = fmt.Errorf("the config of network %d: %w", i, err)
		}
		r.sources = append(r.sources, conf.sources...)
	}
	return r
}

// addNetNS takes paths only: the sandbox of an interface may name an isolation
// domain of another sort (CNI specification, "ADD Success").
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
