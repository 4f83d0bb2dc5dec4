package cnicache_test

import (
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/agent/cnicache"
	"github.com/ip-reconcile/ip-reconcile/internal/heaptest"
)

// A pod's annotation of 256 KiB of cni-args, and a definition of 1.5 MiB, each character of which JSON escapes.
func TestCache_LargestFilesOfAPod(t *testing.T) {
	withArgs := func(config string, size int) string {
		return strings.Replace(config, `{`, `{"args":{"cni":{"x":"`+strings.Repeat(`\u003c`, size)+`"}},`, 1)
	}
	for name, size := range map[string]int{"an annotation": 256 << 10, "an object": 3 << 19} {
		t.Run(name, func(t *testing.T) {
			c := newCaches(t)
			large := withArgs(wb, size)
			c.runtime(one, "eth0", multus, eth0)
			c.delegate(one, "eth0", kindnet, eth0)
			rewrite(c, c.delegate(one, "net1", wb, net1), large)
			c.multusFile(one, kindnet, large)
			e := c.readEntry(one)
			c.readable()
			addresses(t, e, wbAddr)
			if !e.HasAllAddresses || len(e.MayCarry) > 0 {
				t.Errorf("complete: %v, may carry %v", e.HasAllAddresses, e.MayCarry)
			}
		})
	}
}

// What a tenant writes takes a multiple of one file, whatever the number of its pods, and nothing of it is kept.
func TestCache_MemoryOfLargeFiles(t *testing.T) {
	c := newCaches(t)
	large := strings.Replace(wb, `{`, `{"args":{"cni":{"x":"`+strings.Repeat(`\u003c`, 3<<19)+`"}},`, 1)
	const pods = 8
	for i := range pods {
		rewrite(c, c.delegate(id(string(rune('0'+i))+"a"), "net1", wb, net1), large)
	}
	large = ""
	before := heaptest.InUse()
	var entries map[string]*cnicache.Entry
	peak := heaptest.Peak(int64(before)+48<<20, func() { entries = c.read() })
	if grown := int64(peak) - int64(before); grown > 64<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
	if len(entries) != pods {
		t.Errorf("%d entries", len(entries))
	}
	if kept := int64(heaptest.InUse()) - int64(before); kept > 1<<20 {
		t.Errorf("%d KiB are kept", kept>>10)
	}
}

// A pod that selects a large network so often that its file is not read.
func TestCache_FileBeyondTheLimit(t *testing.T) {
	c := newCaches(t)
	c.runtime(one, "eth0", multus, eth0)
	path := c.write(c.folders.Multus+"/"+one, "["+strings.Repeat(" ", 16<<20)+"]")
	c.delegate(one, "net1", wb, net1)
	if e := c.readEntry(one); e.HasAllAddresses || !e.IsUnread || len(e.MayCarry) > 0 {
		t.Errorf("%+v", e)
	}
	c.unreadable(path)
}
