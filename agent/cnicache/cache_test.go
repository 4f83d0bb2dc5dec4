package cnicache_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/agent/cnicache"
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
	if err := os.Mkdir(results, 0o700); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		c.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		c.Fatal(err)
	}
	c.write(path+".new", strings.Replace(string(data), old, text, 1))
	c.setTime(path+".new", info.ModTime())
	if err := os.Rename(path+".new", path); err != nil {
		c.Fatal(err)
	}
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
