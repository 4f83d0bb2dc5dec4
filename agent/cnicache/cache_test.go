package cnicache_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/agent/cnicache"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

func TestCache_MissingRuntimeFolder(t *testing.T) {
	c := newCaches(t)
	c.multusFile(one, wb)
	c.remove(c.folders.Results)
	c.readEntry(one) // no pod has had a network of the runtime yet
	c.runtime(two, "eth0", kindnet, eth0)
	c.readEntry(two)
	c.remove(c.folders.Results)
	if entries, err := c.Read(); err == nil || entries != nil {
		t.Errorf("got %v and no error", entries)
	}
	elsewhere := cnicache.New(cnicache.Folders{Results: filepath.Join(t.TempDir(), "cni", "results")})
	if entries, err := elsewhere.Read(); err == nil || entries != nil {
		t.Errorf("nothing is there: got %v and no error", entries)
	}
	c.write(c.folders.Results, "a file")
	if entries, err := c.Read(); err == nil {
		t.Errorf("got %v and no error", entries)
	}
}

func TestCache_MissingMultusFolder(t *testing.T) {
	c := newCaches(t)
	c.runtime(one, "eth0", kindnet, eth0)
	c.readEntry(one)
	c.multusFile(two, kindnet)
	c.readEntry(two)
	results := filepath.Dir(c.delegate(two, "eth0", kindnet, eth0))
	c.readEntry(two)
	c.remove(results)
	if entries, err := c.Read(); err == nil {
		t.Errorf("without results/: got %v and no error", entries)
	}
	check(t, os.Mkdir(results, 0o700))
	c.readEntry(two)
	c.remove(c.folders.Multus)
	if entries, err := c.Read(); err == nil {
		t.Errorf("without %s: got %v and no error", c.folders.Multus, entries)
	}
}

func TestCache_ChangedFile(t *testing.T) {
	c := newCaches(t)
	path := c.runtime(one, "net1", wb, net1)
	addresses(t, c.readEntry(one), wbAddr)
	changed := wbAddr
	changed.IP = "10.0.0.6"

	tamper(c, path, "10.0.0.5", changed.IP) // with the same size and time
	addresses(t, c.readEntry(one), wbAddr)  // the file is not opened again

	c.setTime(path, noon.Add(time.Nanosecond))
	addresses(t, c.readEntry(one), changed)

	tamper(c, path, changed.IP, "10.0.0.56")
	c.setTime(path, noon.Add(time.Nanosecond))
	changed.IP = "10.0.0.56"
	addresses(t, c.readEntry(one), changed)

	replace(c, path, changed.IP, "10.0.0.57") // another file of the same size and time
	changed.IP = "10.0.0.57"
	addresses(t, c.readEntry(one), changed)

	c.remove(path)
	if entries := c.read(); len(entries) != 0 {
		t.Errorf("removed: got %v", entries)
	}
	c.runtime(one, "net1", wb, net1)
	addresses(t, c.readEntry(one), wbAddr)
}

func replace(c *caches, path, old, text string) {
	c.Helper()
	data, err := os.ReadFile(path)
	check(c, err)
	info, err := os.Stat(path)
	check(c, err)
	c.write(path+".new", strings.Replace(string(data), old, text, 1))
	c.setTime(path+".new", info.ModTime())
	check(c, os.Rename(path+".new", path))
}

// File times are coarse: a new file may change again with the same time.
func TestCache_YoungFileIsReadAgain(t *testing.T) {
	c := newCaches(t)
	path := c.runtime(one, "net1", wb, net1)
	now := time.Now()
	c.setTime(path, now)
	addresses(t, c.readEntry(one), wbAddr)
	tamper(c, path, "10.0.0.5", "10.0.0.6")
	c.setTime(path, now)
	changed := wbAddr
	changed.IP = "10.0.0.6"
	addresses(t, c.readEntry(one), changed)
}

func TestEntry_HasAllAddresses(t *testing.T) {
	pod := func(c *caches) {
		c.runtime(one, "eth0", multus, eth0)
		c.multusFile(one, kindnet, wb)
		c.delegate(one, "eth0", kindnet, eth0)
	}
	for name, tc := range map[string]struct {
		files func(c *caches)
		want  bool
	}{
		"whereabouts for the runtime itself": {func(c *caches) { c.runtime(one, "eth0", wb, eth0) }, true},
		"Multus with all results":            {func(c *caches) { pod(c); c.delegate(one, "net1", wb, net1) }, true},
		"Multus with one result less":        {pod, false},
		"Multus without its own file": {func(c *caches) {
			pod(c)
			c.delegate(one, "net1", wb, net1)
			c.remove(filepath.Join(c.folders.Multus, one))
		}, false},
		"Multus with another cniDir": {func(c *caches) { c.runtime(one, "eth0", multus, eth0) }, false},
		"a result that cannot be read": {func(c *caches) {
			pod(c)
			c.write(c.delegate(one, "net1", wb, net1), "{")
		}, false},
		"only the loopback": {func(c *caches) {
			c.runtime(one, "lo", `{"cniVersion":"1.0.0","name":"cni-loopback","type":"loopback"}`, eth0)
		}, false},
		"a plugin of any name": {func(c *caches) {
			c.runtime(one, "eth0", strings.Replace(kindnet, "ptp", "terway", 1), eth0)
		}, true},
		"a delegate of any name": {func(c *caches) {
			pod(c)
			c.multusFile(one, strings.Replace(kindnet, "ptp", "terway", 1), wb)
			c.delegate(one, "net1", wb, net1)
		}, true},
		"none in Multus' own list, whose results are gone": {func(c *caches) {
			c.runtime(one, "eth0", multus, eth0)
			c.multusFile(one, kindnet, fixed)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCaches(t)
			tc.files(c)
			if got := c.readEntry(one).HasAllAddresses; got != tc.want {
				t.Errorf("got %v, want %v; unread: %v", got, tc.want, c.Unreadable())
			}
		})
	}
}

// A network that may have addresses of whereabouts where the agent does not look makes the list incomplete.
func TestEntry_WhereaboutsInAnUnreadPlace(t *testing.T) {
	net := func(fields string) string { return `{"cniVersion":"1.0.0","name":"net",` + fields + `}` }
	plugin := func(fields string) string { return net(`"type":"own",` + fields) }
	inner := `{"name":"in","type":"macvlan","ipam":` + wbIPAM + `}`
	for name, tc := range map[string]struct {
		config   string
		complete bool
	}{
		"Multus, with delegates":          {net(`"type":"multus","delegates":[` + inner + `]`), false},
		"Multus, with a network's name":   {net(`"type":"multus","clusterNetwork":"a/b"`), false},
		"Multus in a chain":               {net(`"plugins":[{"type":"own"},{"type":"multus-shim"}]`), false},
		"a delegate":                      {plugin(`"delegate":` + inner), false},
		"a delegate beside an ipam":       {plugin(`"ipam":` + wbIPAM + `,"delegate":` + inner), false},
		"a delegate as text":              {plugin(`"delegate":"{\"ipam\":{\"type\":\"whereabouts\"}}"`), false},
		"escapes":                         {plugin(`"delegate":{"type":"WHERE\u0061bouts"}`), false},
		"two sections":                    {plugin(`"ipam":` + wbIPAM + `,"ipam":` + wbIPAM), false},
		"two sections in different cases": {plugin(`"ipam":` + wbIPAM + `,"IPAM":` + wbIPAM), false},
		"an ipam plugin that runs it":     {plugin(`"ipam":{"type":"own","delegate":` + wbIPAM + `}`), false},
		"the plugin itself":               {net(`"type":"whereabouts"`), false},
		"a plugin of a chain":             {net(`"plugins":[{"type":"own"},{"type":"own","in":` + inner + `}]`), false},
		"beside the chain":                {net(`"plugins":[{"type":"own"}],"in":` + inner), false},
		"the name":                        {strings.Replace(plugin(`"a":1`), `"net"`, `"whereabouts-net"`, 1), true},
		"the name of a chain": {strings.Replace(net(`"plugins":[{"type":"own","ipam":`+wbIPAM+`}]`), `"net"`,
			`"whereabouts"`, 1), true},
		"the pod's arguments": {plugin(`"args":{"cni":{"x":"whereabouts"}}`), true},
		"files of whereabouts": {plugin(`"ipam":{"type":"whereabouts","range":"10.0.0.0/24",` +
			`"log_file":"/var/log/whereabouts.log"}`), true},
		"no mention": {plugin(`"ipam":{"type":"static"}`), true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCaches(t)
			c.runtime(one, "eth0", multus, eth0)
			c.delegate(one, "eth0", kindnet, eth0)
			c.delegate(one, "net1", wb, net1)
			c.multusFile(one, kindnet, wb, tc.config)
			rewrite(c, c.delegate(one, "net2", wb, strings.ReplaceAll(result("10.0.0.8/24"), "net1", "net2")), tc.config)
			e := c.readEntry(one)
			if e.HasAllAddresses != tc.complete || e.IsUnread == tc.complete || len(e.MayCarry) > 0 {
				t.Errorf("complete: %v, unread: %v, may carry %v; %v", e.HasAllAddresses, e.IsUnread, e.MayCarry, c.Unreadable())
			}
			if e.HasNoWhereabouts {
				t.Error("it has no whereabouts")
			}
		})
	}
}

// What any cache file names is an interface, with or without an address of whereabouts.
func TestEntry_Interfaces(t *testing.T) {
	c := newCaches(t)
	c.runtime(one, "eth0", multus, eth0)
	c.runtime(one, "lo", `{"cniVersion":"1.0.0","name":"cni-loopback","type":"loopback"}`,
		strings.ReplaceAll(net1, "net1", "lo"))
	c.delegate(one, "net1", wb, net1)
	c.delegate(one, "net2", fixed, `{"cniVersion":"1.0.0","interfaces":[{"name":"veth1"},{"name":"net2","sandbox":"/n"},`+
		`{"name":"net3","sandbox":"/n"}]}`)
	c.delegate(one, "net4", fixed, `{"cniVersion":"1.0.0"}`)
	c.multusFile(one, kindnet, wb, fixed, fixed)
	same(t, "interfaces", c.readEntry(one).Interfaces, []string{"eth0", "net2", "net3", "net4"})
}

// An incomplete entry names the possible ranges if its files name all networks.
func TestEntry_MayCarry(t *testing.T) {
	dual := conf("dual", `{"type":"whereabouts","ipRanges":[{"range":"10.1.0.0/24"},{"range":"fd00::/64"}],`+
		`"network_name":"blue"}`)
	named := []v1alpha1.Network{{Range: "10.0.0.0/24"}, {Range: "10.1.0.0/24", NetworkName: "blue"}, {Range: "fd00::/64",
		NetworkName: "blue"}}
	for name, tc := range map[string]struct {
		files func(c *caches)
		want  []v1alpha1.Network
	}{
		"a result is missing": {func(c *caches) {}, named},
		"all results are there": {func(c *caches) { c.delegate(one, "net1", wb, net1); c.delegate(one, "net2", dual, net1) },
			nil},
		"a result is unreadable": {func(c *caches) { c.write(c.delegate(one, "net1", wb, net1), "{") }, nil},
		"Multus' own file is not there": {func(c *caches) {
			c.delegate(one, "net1", wb, net1)
			c.remove(filepath.Join(c.folders.Multus, one))
		}, nil},
		"a range is unknown": {func(c *caches) {
			c.multusFile(one, kindnet, conf("x",
				`{"type":"whereabouts","network_name":"red"}`))
		}, []v1alpha1.Network{{NetworkName: "red"}}},
		// A tenant may write any length, but pools and reports have a limit.
		"a network_name is longer than a pool's": {func(c *caches) {
			c.multusFile(one, kindnet, wb, conf("x",
				`{"type":"whereabouts","range":"10.1.0.0/24","network_name":"`+strings.Repeat("n", 254)+`"}`))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCaches(t)
			c.runtime(one, "eth0", multus, eth0)
			c.delegate(one, "eth0", kindnet, eth0)
			c.multusFile(one, kindnet, wb, dual)
			tc.files(c)
			same(t, "may carry", c.readEntry(one).MayCarry, tc.want)
		})
	}
}

// elsewhere returns a Multus config with another cniDir, and that cniDir.
func elsewhere(c *caches) (config, cniDir string) {
	cniDir = filepath.Join(c.cni, "elsewhere")
	return strings.Replace(multus, `"type":"multus"`, `"type":"multus","cniDir":"`+cniDir+`"`, 1), cniDir
}

func TestCache_CNIDirOfMultusConfig(t *testing.T) {
	c := newCaches(t)
	config, cniDir := elsewhere(c)
	c.runtime(one, "eth0", config, eth0)
	usual := c.folders.Multus
	same(t, "before anything was read", c.MultusDirs(), []string{usual})
	if e := c.readEntry(one); e.HasAllAddresses || e.InMultus || !e.ByMultus {
		t.Errorf("without that folder: %+v", e)
	}
	same(t, "folders", c.MultusDirs(), []string{cniDir, usual})
	c.folders.Multus = cniDir
	c.multusFile(one, kindnet, wb)
	c.delegate(one, "eth0", kindnet, eth0)
	c.delegate(one, "net1", wb, net1)
	c.multusFile(two, wb) // a sandbox that is being set up
	c.folders.Multus = usual
	e := c.readEntry(one)
	addresses(t, e, wbAddr)
	if !e.HasAllAddresses || !e.InMultus {
		t.Errorf("got %+v", e)
	}
	c.readEntry(two)
	c.readable()
}

// An operator moves Multus, and removes the old folder when no pod needs it.
func TestCache_UnusedCNIDirMayDisappear(t *testing.T) {
	c := newCaches(t)
	config, cniDir := elsewhere(c)
	path := c.runtime(one, "eth0", config, eth0)
	c.write(filepath.Join(cniDir, one), "[]")
	c.readEntry(one)
	c.remove(cniDir)
	if _, err := c.Read(); err == nil || !strings.Contains(err.Error(), cniDir) {
		t.Errorf("while it is named: %v", err)
	}
	c.remove(path)
	if entries := c.read(); len(entries) != 0 {
		t.Errorf("got %v", entries)
	}
	same(t, "folders", c.MultusDirs(), []string{c.folders.Multus})
}
