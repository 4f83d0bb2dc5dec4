package cnicache_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/ip-reconcile/ip-reconcile/agent/cnicache"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// id returns a container id that begins with the given hex digits.
func id(head string) string { return head + strings.Repeat("0", 64-len(head)) }

var (
	one = id("1a")
	two = id("2b")

	// noon is long ago, so files of that time are not read again.
	noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
)

// caches are the folders of a node, and a Cache on them.
type caches struct {
	testing.TB
	cni     string
	folders cnicache.Folders
	*cnicache.Cache
}

func newCaches(t testing.TB) *caches {
	cni := t.TempDir()
	f := cnicache.Folders{Results: filepath.Join(cni, "results"), Multus: filepath.Join(cni, "multus")}
	check(t, os.MkdirAll(f.Results, 0o700))
	return &caches{TB: t, cni: cni, folders: f, Cache: cnicache.New(f)}
}

// plugin returns the same result for every ADD, so that the real libcni writes the cache entry.
type plugin string

func (p plugin) ExecPlugin(context.Context, string, []byte, []string) ([]byte, error) {
	return []byte(p), nil
}
func (plugin) FindInPath(name string, _ []string) (string, error) { return "/bin/" + name, nil }
func (plugin) Decode([]byte) (version.PluginInfo, error)          { return nil, nil }

var web0 = [][2]string{
	{"IgnoreUnknown", "1"},
	{"K8S_POD_NAMESPACE", "default"}, {"K8S_POD_NAME", "web-0"},
	{"K8S_POD_INFRA_CONTAINER_ID", "…"}, {"K8S_POD_UID", "uid-1"},
}

// add makes libcni execute an ADD of a plugin or a chain, and returns the path of the cache entry, which is from
// noon.
func (c *caches) add(cacheDir, id, ifName, config, result string, args ...[2]string) string {
	c.Helper()
	if args == nil {
		args = web0
	}
	cni := libcni.NewCNIConfigWithCacheDir(nil, cacheDir, plugin(result))
	rt := &libcni.RuntimeConf{ContainerID: id, NetNS: "/var/run/netns/cni-" + id[:4], IfName: ifName, Args: args}
	var name string
	if strings.Contains(config, `"plugins"`) {
		list, err := libcni.NetworkConfFromBytes([]byte(config))
		check(c, err)
		name = list.Name
		if _, err := cni.AddNetworkList(context.Background(), list, rt); err != nil {
			c.Fatal(err)
		}
	} else {
		conf, err := libcni.NetworkPluginConfFromBytes([]byte(config))
		check(c, err)
		name = conf.Network.Name
		if _, err := cni.AddNetwork(context.Background(), conf, rt); err != nil {
			c.Fatal(err)
		}
	}
	path := filepath.Join(cacheDir, "results", name+"-"+id+"-"+ifName)
	c.setTime(path, noon)
	return path
}

// runtime executes an ADD of the container runtime, delegate one of Multus.
func (c *caches) runtime(id, ifName, config, result string) string {
	c.Helper()
	return c.add(c.cni, id, ifName, config, result)
}

func (c *caches) delegate(id, ifName, config, result string) string {
	c.Helper()
	return c.add(c.folders.Multus, id, ifName, config, result)
}

// multusFile writes Multus' own file of a container like v4.2.4 (json.Marshal of []*types.DelegateNetConf).
func (c *caches) multusFile(id string, configs ...string) string {
	c.Helper()
	var delegates []string
	for _, config := range configs {
		var conf struct{ Name, Type string }
		check(c, json.Unmarshal([]byte(config), &conf))
		delegates = append(delegates, fmt.Sprintf(`{"Conf":{"cniVersion":"0.3.1","ipam":{},"name":%q,"type":%q},`+
			`"ConfList":{},"CNINetworkConfigList":{"Name":"","CNIVersion":"","DisableCheck":false,"DisableGC":false,`+
			`"LoadOnlyInlinedPlugins":false,"Plugins":null,"Bytes":null},"Name":"default/%s","IsFilterV4Gateway":false,`+
			`"IsFilterV6Gateway":false,"Bytes":%q}`,
			conf.Name, conf.Type, conf.Name, base64.StdEncoding.EncodeToString([]byte(config))))
	}
	return c.write(filepath.Join(c.folders.Multus, id), "["+strings.Join(delegates, ",")+"]")
}

// write creates a file from noon.
func (c *caches) write(path, content string) string {
	c.Helper()
	check(c, os.MkdirAll(filepath.Dir(path), 0o700))
	check(c, os.WriteFile(path, []byte(content), 0o600))
	c.setTime(path, noon)
	return path
}

func (c *caches) setTime(path string, at time.Time) {
	c.Helper()
	check(c, os.Chtimes(path, at, at))
}

// tamper replaces a text in a file, rewrite the config of an entry.
func tamper(c *caches, path, old, text string) {
	c.Helper()
	data, err := os.ReadFile(path)
	check(c, err)
	if !strings.Contains(string(data), old) {
		c.Fatalf("%s is not in %s", old, data)
	}
	c.write(path, strings.Replace(string(data), old, text, 1))
}

func rewrite(c *caches, path, config string) {
	c.Helper()
	data, err := os.ReadFile(path)
	check(c, err)
	var info map[string]any
	check(c, json.Unmarshal(data, &info))
	info["config"] = []byte(config)
	if data, err = json.Marshal(info); err != nil {
		c.Fatal(err)
	}
	c.write(path, string(data))
}

// relink replaces a file by a link to the same content.
func relink(path string) error {
	if err := os.Rename(path, filepath.Join(filepath.Dir(path), "target")); err != nil {
		return err
	}
	return os.Symlink("target", path)
}

func mkfifo(path string) error { return syscall.Mkfifo(path, 0o600) }

func (c *caches) remove(path string) {
	c.Helper()
	check(c, os.RemoveAll(path))
}

func (c *caches) read() map[string]*cnicache.Entry {
	c.Helper()
	entries, err := c.Read()
	check(c, err)
	return entries
}

// readEntry reads the caches and returns an entry, which must exist.
func (c *caches) readEntry(id string) *cnicache.Entry {
	c.Helper()
	entries := c.read()
	e := entries[id]
	if e == nil {
		c.Fatalf("no entry of %s among %v; unread: %v", id[:4], slices.Sorted(maps.Keys(entries)), c.Unreadable())
	}
	return e
}

func (c *caches) readable() {
	c.Helper()
	if len(c.Unreadable()) != 0 {
		c.Errorf("could not be read: %v", c.Unreadable())
	}
}

func (c *caches) unreadable(paths ...string) {
	c.Helper()
	slices.Sort(paths)
	same(c, "could not be read", slices.Sorted(maps.Keys(c.Unreadable())), paths)
}

func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

func addresses(t testing.TB, e *cnicache.Entry, want ...v1alpha1.Address) {
	t.Helper()
	same(t, "addresses", e.Addresses, want)
}

// conf returns the config of one plugin with this ipam section.
func conf(name, ipam string) string {
	return `{"cniVersion":"1.0.0","name":"` + name + `","type":"macvlan","master":"eth0","ipam":` + ipam + `}`
}

// result returns a CNI result with these addresses.
func result(ips ...string) string {
	var texts []string
	for _, ip := range ips {
		texts = append(texts, `{"interface":0,"address":"`+ip+`"}`)
	}
	return `{"cniVersion":"1.0.0","interfaces":[{"name":"net1","sandbox":"/var/run/netns/pod"}],"ips":[` +
		strings.Join(texts, ",") + `],"dns":{}}`
}

const (
	wbIPAM  = `{"type":"whereabouts","range":"10.0.0.0/24"}`
	kindnet = `{"cniVersion":"0.3.1","name":"kindnet","plugins":[{"type":"ptp","ipam":{"type":"host-local"}},` +
		`{"type":"portmap","capabilities":{"portMappings":true}}]}`
	// multus and shim are the runtime's configs with Multus as the first plugin.
	multus = `{"cniVersion":"0.3.1","name":"multus-cni-network","plugins":[{"type":"multus",` +
		`"delegates":[{"name":"kindnet","type":"ptp"}]}]}`
	shim = `{"cniVersion":"1.0.0","name":"multus-cni-network","plugins":[{"type":"multus-shim","logLevel":"verbose"}]}`
)

var (
	wb     = conf("wb", wbIPAM)
	fixed  = conf("fixed", `{"type":"static"}`)
	eth0   = strings.ReplaceAll(result("10.244.0.5/24"), "net1", "eth0")
	net1   = result("10.0.0.5/24")
	wbAddr = v1alpha1.Address{IP: "10.0.0.5", IfName: "net1", Network: "wb", Range: "10.0.0.0/24"}
)

// check ends the test with an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
