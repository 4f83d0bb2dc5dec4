package cnicache_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/agent/cnicache"
)

func TestEntry_Multus(t *testing.T) {
	c := newCaches(t)
	c.setTime(c.runtime(one, "eth0", multus, eth0), noon.Add(3*time.Second))
	c.setTime(c.multusFile(one, kindnet, wb), noon.Add(time.Second))
	c.setTime(c.delegate(one, "eth0", kindnet, eth0), noon.Add(2*time.Second))
	c.setTime(c.delegate(one, "net1", wb, net1), noon.Add(2*time.Second))
	e := c.readEntry(one)
	c.readable()
	addresses(t, e, wbAddr)
	e.Addresses = nil
	if !e.Since.Equal(noon.Add(time.Second)) {
		t.Errorf("since: got %v, want the time of Multus' own file, the oldest", e.Since)
	}
	e.Since = time.Time{}
	same(t, "entry", *e, cnicache.Entry{
		Namespace: "default", Name: "web-0", UID: "uid-1",
		NetNS: []string{"/var/run/netns/cni-1a00",
			"/var/run/netns/pod"}, Interfaces: []string{"eth0"}, HasAllAddresses: true, ByMultus: true, InMultus: true,
	})
}

func TestEntry_MultusOwnFileOnly(t *testing.T) {
	c := newCaches(t)
	c.multusFile(one, kindnet, wb)
	e := c.readEntry(one)
	c.readable()
	same(t, "entry", *e, cnicache.Entry{Since: e.Since, InMultus: true})
}

func TestEntry_HasNoWhereabouts(t *testing.T) {
	pod := func(c *caches) { c.runtime(one, "eth0", multus, eth0); c.delegate(one, "eth0", kindnet, eth0) }
	cases := map[string]struct {
		files func(c *caches)
		want  bool
	}{
		"a runtime's own network": {func(c *caches) { c.runtime(one, "eth0", kindnet, eth0) }, true},
		"two of them": {func(c *caches) {
			c.runtime(one, "eth0", kindnet, eth0)
			c.runtime(one, "net1", fixed, net1)
		}, true},
		"the loopback alone, while others may come or have gone": {func(c *caches) {
			c.runtime(one, "lo", `{"cniVersion":"1.0.0","name":"cni-loopback","type":"loopback"}`, eth0)
		}, false},
		"the loopback and another": {func(c *caches) {
			c.runtime(one, "lo", `{"cniVersion":"1.0.0","name":"cni-loopback","type":"loopback"}`, eth0)
			c.runtime(one, "eth0", kindnet, eth0)
		}, true},
		"Multus with its own file": {func(c *caches) { pod(c); c.multusFile(one, kindnet) }, true},
		"the shim with it": {func(c *caches) {
			c.runtime(one, "eth0", shim, eth0)
			c.multusFile(one, kindnet)
		}, true},
		"Multus without its own file":  {pod, false},
		"the shim without it":          {func(c *caches) { c.runtime(one, "eth0", shim, eth0) }, false},
		"a delegate's result alone":    {func(c *caches) { c.delegate(one, "eth0", kindnet, eth0) }, false},
		"Multus' own file alone":       {func(c *caches) { c.multusFile(one, kindnet) }, false},
		"its own file of nulls":        {func(c *caches) { pod(c); c.write(c.multusFile(one), `[null]`) }, false},
		"its own file that is no list": {func(c *caches) { pod(c); c.write(c.multusFile(one), `{}`) }, false},
		"its own file half-written": {func(c *caches) { pod(c); c.write(c.multusFile(one, kindnet), `[{"Conf":`) },
			false},
		"its own file without networks": {func(c *caches) { pod(c); c.write(c.multusFile(one), `null`) }, false},
		"its own file with an unread one": {func(c *caches) { pod(c); c.write(c.multusFile(one), `[{"Bytes":"e30="}]`) },
			false},
		"whereabouts among the delegates": {func(c *caches) { pod(c); c.multusFile(one, kindnet, wb) }, false},
		"whereabouts in the runtime's":    {func(c *caches) { c.runtime(one, "eth0", wb, eth0) }, false},
		"whereabouts in an unread place": {func(c *caches) {
			c.runtime(one, "eth0", conf("x",
				`{"type":"own","by":{"WhereAbouts":1}}`), eth0)
		}, false},
		"whereabouts inlined in Multus": {func(c *caches) {
			c.runtime(one, "eth0", strings.Replace(multus, "ptp", "whereabouts", 1), eth0)
			c.multusFile(one, kindnet)
		}, false},
		"whereabouts in escapes": {func(c *caches) { c.runtime(one, "eth0", conf("x", `{"type":"where\u0061bouts"}`), eth0) },
			false},
		"a result beside that is empty": {func(c *caches) {
			c.runtime(one, "eth0", kindnet, eth0)
			c.write(c.folders.Results+"/b-"+one+"-net1", "")
		}, false},
		"a result of an unknown version": {func(c *caches) {
			tamper(c, c.runtime(one, "eth0", kindnet, eth0), `"cniVersion":"1.0.0"`, `"cniVersion":"9.0.0"`)
		}, false},
		"a plugin of any name": {func(c *caches) {
			c.runtime(one, "eth0", strings.Replace(kindnet, "ptp", "terway", 1), eth0)
		}, true},
		"an ipam plugin of any name": {func(c *caches) { c.runtime(one, "eth0", conf("x", `{"type":"ours"}`), eth0) }, true},
		"a delegate of any name": {func(c *caches) {
			pod(c)
			c.multusFile(one, strings.Replace(kindnet, "ptp", "terway", 1))
		}, true},
		"a chain of plugins": {func(c *caches) {
			c.runtime(one, "eth0", `{"cniVersion":"1.0.0","name":"x","plugins":[{"type":"bridge"},{"type":"tuning"}]}`, eth0)
		}, true},
		"a chain whose first section is unreadable": {func(c *caches) {
			rewrite(c, c.runtime(one, "eth0", kindnet, eth0),
				`{"name":"kindnet","plugins":[{"type":"bridge","ipam":{"type":7}},{"type":"tuning"}]}`)
		}, false},
		"a chain of plugins from elsewhere": {func(c *caches) {
			rewrite(c, c.runtime(one, "eth0", kindnet, eth0),
				`{"name":"kindnet"}`)
		}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newCaches(t)
			tc.files(c)
			if got := c.readEntry(one).HasNoWhereabouts; got != tc.want {
				t.Errorf("no whereabouts: got %v, want %v; unread: %v", got, tc.want, c.Unreadable())
			}
		})
	}
}

// A result counts for the network in Multus' own file that has its name and its interface.
func TestEntry_ResultOfEachNetwork(t *testing.T) {
	on := func(ifName, ip string) string { return strings.ReplaceAll(result(ip), "net1", ifName) }
	for name, tc := range map[string]struct {
		files func(c *caches)
		want  bool
	}{
		"another network was plugged in later": {func(c *caches) {
			c.delegate(one, "net1", wb, net1)
			c.multusFile(one, kindnet, wb)
			c.delegate(one, "net2", fixed, on("net2", "192.0.2.7/24"))
		}, true},
		"another one was, and the result of net1 is lost": {func(c *caches) {
			c.multusFile(one, kindnet, wb)
			c.delegate(one, "net2", fixed, on("net2", "192.0.2.7/24"))
		}, false},
		"the same one was, and the result of net1 is lost": {func(c *caches) {
			c.multusFile(one, kindnet, wb)
			c.delegate(one, "net2", wb, on("net2", "10.0.0.6/24"))
		}, false},
		"another one was as net1": {func(c *caches) {
			c.multusFile(one, kindnet, wb)
			c.delegate(one, "net1", fixed, on("net1", "192.0.2.7/24"))
		}, false},
		"twice the same": {func(c *caches) {
			c.multusFile(one, kindnet, wb, wb)
			c.delegate(one, "net1", wb, net1)
			c.delegate(one, "net2", wb, on("net2", "10.0.0.6/24"))
		}, true},
		"twice the same, and one is lost": {func(c *caches) {
			c.multusFile(one, kindnet, wb, wb)
			c.delegate(one, "net2", wb, on("net2", "10.0.0.6/24"))
			c.delegate(one, "net3", fixed, on("net3", "192.0.2.7/24"))
		}, false},
		"the pod names the interface": {func(c *caches) {
			tamper(c, c.multusFile(one, kindnet, wb), `"Name":"default/wb"`, `"ifnameRequest":"data","Name":"default/wb"`)
			c.delegate(one, "data", wb, on("data", "10.0.0.5/24"))
		}, true},
		"a whereabouts network is the first one": {func(c *caches) {
			c.multusFile(one, wb, kindnet)
			c.delegate(one, "eth0", wb, on("eth0", "10.0.0.5/24"))
			c.delegate(one, "net1", kindnet, net1)
		}, true},
		"the first one is lost, and the second has its name": {func(c *caches) {
			c.multusFile(one, wb, wb)
			c.delegate(one, "net1", wb, net1)
		}, false},
		"a list of plugins that another folder completes": {func(c *caches) {
			chain := strings.Replace(kindnet, `"kindnet"`, `"aux"`, 1)
			c.multusFile(one, kindnet, wb, chain)
			c.delegate(one, "net1", wb, net1)
			c.delegate(one, "net2", strings.Replace(chain, `]}`, `,{"type":"tuning"}]}`, 1), on("net2", "192.0.2.7/24"))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCaches(t)
			c.runtime(one, "eth0", multus, eth0)
			c.delegate(one, "eth0", kindnet, eth0)
			tc.files(c)
			if e := c.readEntry(one); e.HasAllAddresses != tc.want {
				t.Errorf("all addresses are known: %v, want %v: %v, interfaces %v", e.HasAllAddresses, tc.want, e.Addresses,
					e.Interfaces)
			}
			c.readable()
		})
	}
}

// A FIFO or a link must not block or be followed, and a file may be incomplete while it is written. Each counts by
// its name.
func TestCache_UnreadableFile(t *testing.T) {
	cases := map[string]func(c *caches, path string) error{
		"half-written": func(c *caches, path string) error { return os.Truncate(path, 100) },
		"empty":        func(c *caches, path string) error { return os.Truncate(path, 0) },
		"huge":         func(c *caches, path string) error { return os.Truncate(path, 1<<40) },
		"not JSON":     func(c *caches, path string) error { return os.WriteFile(path, []byte("\x00\xff{"), 0o600) },
		"null":         func(c *caches, path string) error { return os.WriteFile(path, []byte("null"), 0o600) },
		"a folder":     func(c *caches, path string) error { c.remove(path); return os.Mkdir(path, 0o700) },
		"a link":       func(c *caches, path string) error { return relink(path) },
		"a dead link":  func(c *caches, path string) error { c.remove(path); return os.Symlink("nowhere", path) },
		"a fifo":       func(c *caches, path string) error { c.remove(path); return mkfifo(path) },
		"without right": func(c *caches, path string) error {
			if os.Geteuid() == 0 {
				c.Skip("root may read everything")
			}
			return os.Chmod(path, 0)
		},
		"of another container": func(c *caches, path string) error { tamper(c, path, one, two); return nil },
		"of no container":      func(c *caches, path string) error { tamper(c, path, one, ""); return nil },
		"of another kind": func(c *caches, path string) error {
			tamper(c, path, "cniCacheV1", "cniCacheV2")
			return nil
		},
	}
	cases["a bare result, of libcni before 2019"] = func(c *caches, path string) error { c.write(path, net1); return nil }
	cases["an address that is none"] = func(c *caches, path string) error {
		tamper(c, path, `"address":"10.0.0.5/24"`, `"address":"10.0.0.5"`)
		return nil
	}
	whole := cnicache.Entry{Namespace: "default", Name: "web-0", UID: "uid-1", NetNS: []string{"/var/run/netns/cni-1a00"},
		Interfaces: []string{"net1"}}
	kept := map[string]cnicache.Entry{
		"a bare result, of libcni before 2019": {NetNS: []string{"/var/run/netns/pod"}}, "an address that is none": whole,
	}
	for name, spoil := range cases {
		t.Run(name, func(t *testing.T) {
			c := newCaches(t)
			path := c.runtime(one, "net1", wb, net1)
			c.delegate(two, "net1", wb, net1)
			check(t, spoil(c, path))
			info, err := os.Lstat(path)
			check(t, err)
			for range 2 { // the second time from memory
				entries := c.read()
				c.unreadable(path)
				if err := c.Unreadable()[path]; name == "huge" && !strings.Contains(err.Error(), "larger") {
					t.Errorf("was read: %v", err)
				}
				e := entries[one]
				if e == nil {
					t.Fatal("the id is gone")
				}
				want := kept[name]
				want.Since, want.IsUnread = info.ModTime(), true
				same(t, "entry", *e, want)
				if len(entries) != 2 {
					t.Errorf("entries: got %d, want 2", len(entries))
				}
				addresses(t, entries[two], wbAddr)
			}
		})
	}
}

func TestCache_ContainerIDInFileName(t *testing.T) {
	cases := map[string]string{
		"wb-" + one + "-net1":               one,
		"a-b-" + one + "-net-1-x":           one,
		two + "-" + one + "-net1":           one,
		"wb-" + two + "-" + one + "-net1":   one,
		"wb-" + strings.ToUpper(one) + "-e": strings.ToUpper(one),
		"wb-" + one[1:] + "-net1":           "",
		"wb-" + one + "0-net1":              "",
		"wb-" + one[1:] + "g-net1":          "",
		"-" + one + "-net1":                 "",
		"wb-" + one:                         "",
		"wb-" + one + "-":                   "",
		one:                                 "",
		".nfs0001":                          "",
	}
	for name, want := range cases {
		c := newCaches(t)
		c.write(filepath.Join(c.folders.Results, name), "{")
		entries := c.read()
		if want == "" {
			if len(entries) != 0 || len(c.Unreadable()) != 0 {
				t.Errorf("%s: got %v, want it to be ignored", name, entries)
			}
			continue
		}
		if len(entries) != 1 || entries[want] == nil {
			t.Errorf("%s: got %v, want %s", name, entries, want)
		}
	}
}

// A UID proves that a sandbox belongs to another pod, so contradictory UIDs are dropped.
func TestEntry_ContradictoryPod(t *testing.T) {
	c := newCaches(t)
	c.runtime(one, "eth0", kindnet, eth0)
	for i, uid := range []string{"uid-2", "uid-1", ""} {
		c.add(c.folders.Multus, one, "net"+string(rune('1'+i)), wb, net1, [2]string{"K8S_POD_NAMESPACE", "default"},
			[2]string{"K8S_POD_UID", uid})
	}
	e := c.readEntry(one)
	same(t, "pod", []string{e.Namespace, e.Name, e.UID}, []string{"default", "web-0", ""})
}

func TestEntry_NetNSPaths(t *testing.T) {
	c := newCaches(t)
	c.runtime(one, "net1", wb, `{"cniVersion":"0.4.0","interfaces":[{"name":"veth1"},{"name":"net1",`+
		`"sandbox":"/proc/7/ns/net"},{"name":"x","sandbox":"vm-7"},{"name":"y","sandbox":"/proc/7/ns/net"}]}`)
	same(t, "paths", c.readEntry(one).NetNS, []string{"/proc/7/ns/net", "/var/run/netns/cni-1a00"})
}
