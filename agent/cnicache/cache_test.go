package cnicache_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ip-reconcile/ip-reconcile/agent/cnicache"
)

func TestTheRuntimesFolderMayBeMissingUntilItWasSeenIfTheOneAboveIsThere(t *testing.T) {
	c := newCaches(t)
	c.own(one, wb)
	c.remove(c.folders.Results)
	c.readEntry(one) // no pod has had a network of the runtime's yet
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

func TestAFolderOfMultusMayBeMissingUntilItWasSeen(t *testing.T) {
	c := newCaches(t)
	c.runtime(one, "eth0", kindnet, eth0)
	c.readEntry(one)
	c.own(two, kindnet)
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

func TestAFolderOfMultusThatCannotBeListedIsAnErrorAtOnce(t *testing.T) {
	c := newCaches(t)
	c.write(c.folders.Multus, "a file")
	if entries, err := c.Read(); err == nil {
		t.Errorf("got %v and no error", entries)
	}
}

func TestWithoutMultusItsFolderIsNotRead(t *testing.T) {
	c := newCaches(t)
	c.runtime(one, "eth0", kindnet, eth0)
	entries, err := cnicache.New(cnicache.Folders{Results: c.folders.Results}).Read()
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v", entries, err)
	}
}

func TestAFileThatChangedIsReadAgain(t *testing.T) {
	c := newCaches(t)
	path := c.runtime(one, "net1", wb, net1)
	addresses(t, c.readEntry(one), wbAddr)
	changed := wbAddr
	changed.IP = "10.0.0.6"

	tamper(c, path, "10.0.0.5", changed.IP) // of the same size and time
	addresses(t, c.readEntry(one), wbAddr)  // so that it is not opened again

	c.from(path, noon.Add(time.Nanosecond))
	addresses(t, c.readEntry(one), changed)

	tamper(c, path, changed.IP, "10.0.0.56")
	c.from(path, noon.Add(time.Nanosecond))
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
	c.from(path+".new", info.ModTime())
	if err := os.Rename(path+".new", path); err != nil {
		c.Fatal(err)
	}
}

// The time of a file is coarse: one that is being written may change once more
// without another time.
func TestAFileThatWasJustWrittenIsReadAgainWhateverItsTime(t *testing.T) {
	c := newCaches(t)
	path := c.runtime(one, "net1", wb, net1)
	now := time.Now()
	c.from(path, now)
	addresses(t, c.readEntry(one), wbAddr)
	tamper(c, path, "10.0.0.5", "10.0.0.6")
	c.from(path, now)
	changed := wbAddr
	changed.IP = "10.0.0.6"
	addresses(t, c.readEntry(one), changed)
}

func TestReadingWhileSandboxesComeAndGoFailsNeverAndEndsWithWhatIsThere(t *testing.T) {
	c := newCaches(t)
	c.runtime(one, "net1", wb, net1)
	c.own(one, wb)
	c.delegate(one, "net1", wb, net1)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			paths := []string{c.own(two, wb), c.delegate(two, "net1", wb, net1), c.runtime(two, "net1", wb, net1)}
			select {
			case <-stop:
				return
			default:
			}
			for _, p := range paths {
				c.remove(p)
			}
		}
	}()
	for range 500 {
		addresses(t, c.readEntry(one), wbAddr)
		for p, err := range c.Unreadable() {
			if !strings.Contains(p, two) || errors.Is(err, fs.ErrNotExist) {
				t.Fatal(p, err)
			}
		}
	}
	close(stop)
	<-done
	addresses(t, c.readEntry(two), wbAddr)
	c.readable()
}

func TestWhatACallerDoesToAnEntryIsNotSeenByTheNextRead(t *testing.T) {
	c := newCaches(t)
	c.runtime(one, "net1", wb, net1)
	e := c.readEntry(one)
	e.Addresses[0].IP, e.NetNS[0] = "changed", "changed"
	e = c.readEntry(one)
	addresses(t, e, wbAddr)
	same(t, "paths", e.NetNS, []string{"/var/run/netns/cni-1a00", "/var/run/netns/pod"})
}

func TestArbitraryContentNeitherPanicsNorCostsAnotherEntry(t *testing.T) {
	c := newCaches(t)
	c.own(one, wb)
	c.delegate(one, "net1", wb, net1)
	want := *c.readEntry(one)
	paths := []string{
		c.runtime(two, "eth0", kindnet, eth0), c.own(two, kindnet), c.delegate(two, "net1", wb, strings.Replace(net1, "1.0.0", "0.4.0", 1)),
	}
	originals := map[string]string{}
	for _, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		originals[p] = string(data)
	}
	rapid.Check(t, func(r *rapid.T) {
		path := rapid.SampledFrom(paths).Draw(r, "path")
		content := rapid.OneOf(rapid.String(), damaged(originals), shaped()).Draw(r, "content")
		c.write(path, content)
		if err := os.Chtimes(path, time.Now(), time.Now()); err != nil {
			r.Fatal(err)
		}
		entries, err := c.Read()
		if err != nil {
			r.Fatal(err)
		}
		if len(entries) != 2 || entries[two] == nil {
			r.Fatalf("got %v", entries)
		}
		same(t, "the other entry", *entries[one], want)
		for p := range c.Unreadable() {
			if p != two && !strings.Contains(p, two) {
				r.Fatalf("%s: %v", p, c.Unreadable()[p])
			}
		}
		if _, bad := c.Unreadable()[path]; bad && entries[two].NoWhereabouts {
			r.Fatal("surely without whereabouts though a file could not be read")
		}
		c.write(path, originals[path])
	})
}

// damaged is a real file with a piece replaced.
func damaged(originals map[string]string) *rapid.Generator[string] {
	var texts []string
	for _, o := range originals {
		texts = append(texts, o)
	}
	return rapid.Custom(func(r *rapid.T) string {
		text := rapid.SampledFrom(texts).Draw(r, "of")
		from := rapid.IntRange(0, len(text)).Draw(r, "from")
		to := min(len(text), from+rapid.IntRange(0, 20).Draw(r, "length"))
		piece := rapid.SampledFrom([]string{"", "null", "{}", "[]", "7", `"`, `"x"`, ",", "\x00", "[null]"}).Draw(r, "piece")
		return text[:from] + piece + text[to:]
	})
}

// shaped is JSON with the keys of the caches and any values.
func shaped() *rapid.Generator[string] {
	value := rapid.SampledFrom([]string{
		"null", "{}", "[]", "7", `""`, `"x"`, "[null]", "[[]]", "[{}]", `[["K8S_POD_UID","u","v"],["K8S_POD_UID"]]`,
		`"cniCacheV1"`, `"` + two + `"`, `"bnVsbA=="`, `"e30="`, `"W10="`, `"eyJ0eXBlIjoieCIsInBsdWdpbnMiOltudWxsXX0="`,
		`{"cniVersion":"0.4.0","ips":[null],"interfaces":[null],"routes":[null]}`, `{"cniVersion":"0.2.0","ip4":{},"ip6":null}`,
		`{"cniVersion":"1.0.0","ips":[null,{}],"interfaces":[null]}`, `{"cniVersion":"0.4.0","ips":[{"address":null}]}`,
	})
	return rapid.Custom(func(r *rapid.T) string {
		var fields []string
		for _, key := range []string{"kind", "containerId", "config", "ifName", "networkName", "netns", "cniArgs", "result", "Bytes", "cniVersion"} {
			if v := value.Draw(r, key); rapid.Bool().Draw(r, "with "+key) {
				fields = append(fields, `"`+key+`":`+v)
			}
		}
		text := "{" + strings.Join(fields, ",") + "}"
		if rapid.Bool().Draw(r, "right kind") {
			text = `{"kind":"cniCacheV1","containerId":"` + two + `","result":` + value.Draw(r, "its result") + `,"config":` + value.Draw(r, "its config") + `}`
		}
		if rapid.Bool().Draw(r, "a list") {
			text = "[" + text + "]"
		}
		return text
	})
}

// BenchmarkRead is a node with 500 sandboxes of three files each.
func BenchmarkRead(b *testing.B) {
	c := newCaches(b)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 500 {
		head := fmt.Sprintf("%x%015x", random.Uint64()|1<<63, i)
		c.runtime(id(head), "eth0", multus, eth0)
		c.own(id(head), kindnet, wb)
		c.delegate(id(head), "net1", wb, net1)
	}
	run := func(b *testing.B, cache func() *cnicache.Cache) {
		b.ReportAllocs()
		for b.Loop() {
			entries, err := cache().Read()
			if err != nil || len(entries) != 500 {
				b.Fatal(len(entries), err)
			}
		}
	}
	b.Run("cold", func(b *testing.B) { run(b, func() *cnicache.Cache { return cnicache.New(c.folders) }) })
	warm := cnicache.New(c.folders)
	b.Run("warm", func(b *testing.B) { run(b, func() *cnicache.Cache { return warm }) })
}
