// Package cnicache reads what a node's CNI caches say of each container: the
// results that libcni keeps for the container runtime, those that it keeps for
// Multus, and the list of networks that Multus keeps for each container. They
// know of a sandbox before the runtime lists it, and after a DEL was lost; and
// they hold the addresses that are really configured.
package cnicache

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate/v1alpha1"
)

// Folders are where the caches lie on this node.
type Folders struct {
	// Results is libcni's own, of the container runtime: /var/lib/cni/results
	// (libcni v1.3.0, libcni/api.go, getCacheFilePath).
	Results string
	// Multus is its cniDir: /var/lib/cni/multus, with a file for each container
	// and its delegates' results in results/ below it (Multus v4.2.4,
	// pkg/multus/multus.go, saveScratchNetConf and confAdd). "" where there is none.
	Multus string
}

// Entry is what the caches say of one container id.
type Entry struct {
	ID string
	// Since is when the first of its files appeared: their oldest mtime.
	Since time.Time
	// Namespace, Name and UID are the pod's by the CNI arguments K8S_POD_*; ""
	// where none says, or where files of one id say different things.
	Namespace, Name, UID string
	// NetNS are the paths of network namespaces that its files name, sorted.
	NetNS []string
	// Addresses are the whereabouts addresses that are really configured, sorted
	// by interface and address, each once, at most 64.
	Addresses []v1alpha1.Address
	// NoWhereabouts is set where it surely has no whereabouts address: there is a
	// result of more than the loopback, every file could be read in full, nothing in
	// them mentions whereabouts, and where Multus has to do with it, Multus' own list
	// of its networks is one of the files.
	NoWhereabouts bool
}

// maxAddresses is what a SandboxReport takes for one sandbox.
const maxAddresses = 64

// Cache reads the folders again and again and keeps what it parsed of files
// that did not change, so that a look costs a readdir, and a stat per file. It
// is not for concurrent use.
type Cache struct {
	// Recheck is for how long a file that was looked at, and is still listed, is
	// taken for unchanged; 0 for not at all. Where looks come every second, most of
	// their cost is asking for what is known.
	Recheck time.Duration

	folders []*folder
	unread  map[string]error
}

// New is a Cache that has read nothing yet.
func New(f Folders) *Cache {
	// libcni makes its folder with the first result: a node on which no pod has had a
	// network yet has only the folder above it.
	c := &Cache{folders: []*folder{{path: f.Results, kind: runtimeResults, optional: true, above: filepath.Dir(f.Results)}}}
	if f.Multus != "" {
		c.folders = append(c.folders,
			&folder{path: f.Multus, kind: multusOwn, optional: true},
			&folder{path: filepath.Join(f.Multus, "results"), kind: multusResults, optional: true})
	}
	return c
}

// Read returns the entries by container id; they are the caller's own. It is an
// error when a folder could not be listed or its files not be looked at. A
// folder may be missing as long as this Cache has never seen it; for that of the
// runtime's results, the folder above it must be there.
func (c *Cache) Read() (map[string]*Entry, error) {
	c.unread = map[string]error{}
	now := time.Now()
	sums := map[string]*sum{}
	for _, f := range c.folders {
		if err := c.readFolder(f, now, sums); err != nil {
			return nil, err
		}
	}
	entries := make(map[string]*Entry, len(sums))
	for id, s := range sums {
		e, err := s.entry(id)
		if err != nil {
			c.unread[id] = err
		}
		entries[id] = e
	}
	return entries, nil
}

// Missing is the folder of the runtime's results where the last Read found none, ""
// where it is there.
func (c *Cache) Missing() string {
	if f := c.folders[0]; !f.seen {
		return f.path
	}
	return ""
}

// Unread says what of the last Read cost only its own entry, and why: by path
// each file that could not be read in full, and by id each container whose
// files contradict each other.
func (c *Cache) Unread() map[string]error { return c.unread }

func (c *Cache) readFolder(f *folder, now time.Time, sums map[string]*sum) error {
	err := f.look(now, c.Recheck, func(id, name string, r *record) {
		s := sums[id]
		if s == nil {
			s = &sum{}
			sums[id] = s
		}
		s.add(f.kind, r)
		if r.problem != nil {
			c.unread[filepath.Join(f.path, name)] = r.problem
		}
	})
	if errors.Is(err, fs.ErrNotExist) && f.optional && !f.seen {
		if f.above == "" {
			return nil
		}
		if _, aerr := os.ReadDir(f.above); aerr == nil {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("CNI cache: %w", err)
	}
	f.seen = true
	return nil
}

// sum is what the files of one id say together, in whatever order they come.
type sum struct {
	since                time.Time
	namespace, name, uid word
	netns                []string
	addresses            []address
	result, own          bool // a result is there; Multus' own file is
	multus               bool // Multus has to do with it
	doubt                bool // a file mentions whereabouts or could not be read in full
}

func (s *sum) add(kind kind, r *record) {
	if t := r.info.ModTime(); s.since.IsZero() || t.Before(s.since) {
		s.since = t
	}
	s.namespace.say(r.namespace)
	s.name.say(r.name)
	s.uid.say(r.uid)
	s.netns = append(s.netns, r.netns...)
	s.addresses = append(s.addresses, r.addresses...)
	s.doubt = s.doubt || r.problem != nil || r.mentioned
	// A delegate's result is Multus' also while the runtime has none of Multus.
	s.multus = s.multus || r.multus || kind != runtimeResults
	if kind == multusOwn {
		s.own = true
	} else {
		s.result = s.result || !r.loopback
	}
}

func (s *sum) entry(id string) (*Entry, error) {
	slices.Sort(s.netns)
	slices.SortFunc(s.addresses, address.compare)
	e := &Entry{
		ID: id, Since: s.since,
		Namespace: s.namespace.text, Name: s.name.text, UID: s.uid.text,
		NetNS:         slices.Compact(s.netns),
		NoWhereabouts: s.result && !s.doubt && (s.own || !s.multus),
	}
	for i, a := range s.addresses {
		if (i == 0 || a != s.addresses[i-1]) && len(e.Addresses) < maxAddresses {
			e.Addresses = append(e.Addresses, a.Address)
		}
	}
	if s.namespace.torn || s.name.torn || s.uid.torn {
		return e, errors.New("its files name different pods")
	}
	return e, nil
}

// word is a text that several files may say. A UID proves that a pod is another
// one, so one that is in dispute is none.
type word struct {
	text string
	torn bool
}

func (w *word) say(text string) {
	if text == "" || w.torn || text == w.text {
		return
	}
	if w.text != "" {
		*w = word{torn: true}
		return
	}
	w.text = text
}

// address is one of a result, with its parsed form for the order.
type address struct {
	v1alpha1.Address
	addr netip.Addr
}

func (a address) compare(b address) int {
	for _, c := range []int{
		strings.Compare(a.IfName, b.IfName), a.addr.Compare(b.addr), strings.Compare(a.Network, b.Network),
		strings.Compare(a.NetworkName, b.NetworkName), strings.Compare(a.Range, b.Range),
	} {
		if c != 0 {
			return c
		}
	}
	return 0
}
