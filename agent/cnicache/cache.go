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
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// Folders are where the caches lie on this node.
type Folders struct {
	// Results is libcni's own, of the container runtime: /var/lib/cni/results
	// (libcni v1.3.0, libcni/api.go, getCacheFilePath).
	Results string
	// Multus is its cniDir: /var/lib/cni/multus, with a file for each container
	// and its delegates' results in results/ below it (Multus v4.2.4,
	// pkg/multus/multus.go, saveScratchNetConf and confAdd). "" where there is none.
	// What Multus' own configs in the runtime's results name is read besides.
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
	// them mentions whereabouts, every plugin is of a type that is known not to run
	// others, and where Multus has to do with it, Multus' own list of its networks is
	// one of the files.
	NoWhereabouts bool
	// AddressesComplete is set where its files tell all of its addresses: those that prove that it
	// has none, or, read in full, a result of each of its networks.
	AddressesComplete bool
	// ByMultus: its result of the runtime is Multus'. InMultus: one of its files is in
	// a folder of Multus.
	ByMultus, InMultus bool
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

	results          *folder
	configuredMultus []*folder            // of Multus, by Folders
	discoveredMultus map[string][]*folder // of Multus, by the cniDir that its configs name
	unreadable       map[string]error
}

// New is a Cache that has read nothing yet.
func New(f Folders) *Cache {
	// libcni makes its folder with the first result: a node on which no pod has had a
	// network yet has only the folder above it.
	c := &Cache{results: &folder{path: f.Results, kind: runtimeResults, optional: true, parent: filepath.Dir(f.Results)}, discoveredMultus: map[string][]*folder{}}
	if f.Multus != "" {
		c.configuredMultus = multusFolders(f.Multus)
	}
	return c
}

func multusFolders(cniDir string) []*folder {
	return []*folder{
		{path: filepath.Clean(cniDir), kind: multusDelegates, optional: true},
		{path: filepath.Join(cniDir, "results"), kind: multusResults, optional: true},
	}
}

// Read returns the entries by container id; they are the caller's own. It is an
// error when a folder could not be listed or its files not be looked at. A
// folder may be missing as long as this Cache has never seen it; for that of the
// runtime's results, the folder above it must be there.
func (c *Cache) Read() (map[string]*Entry, error) {
	c.unreadable = map[string]error{}
	now := time.Now()
	sums := map[string]*entryBuilder{}
	if err := c.readFolder(c.results, now, sums); err != nil {
		return nil, err
	}
	for _, f := range c.multusFolders(sums) {
		if err := c.readFolder(f, now, sums); err != nil {
			return nil, err
		}
	}
	entries := make(map[string]*Entry, len(sums))
	for id, s := range sums {
		e, err := s.build(id)
		if err != nil {
			c.unreadable[id] = err
		}
		entries[id] = e
	}
	return entries, nil
}

// multusFolders are Multus' folders: those that were named, and those that its own configs
// among the runtime's results name now.
func (c *Cache) multusFolders(sums map[string]*entryBuilder) []*folder {
	found := map[string][]*folder{}
	for _, s := range sums {
		if s.cniDir == "" || len(c.configuredMultus) > 0 && s.cniDir == c.configuredMultus[0].path {
			continue
		}
		found[s.cniDir] = c.discoveredMultus[s.cniDir]
		if found[s.cniDir] == nil {
			found[s.cniDir] = multusFolders(s.cniDir)
		}
	}
	c.discoveredMultus = found
	all := slices.Clone(c.configuredMultus)
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		all = append(all, found[dir]...)
	}
	return all
}

// MissingResults is the folder of the runtime's results where the last Read found none, ""
// where it is there.
func (c *Cache) MissingResults() string {
	if !c.results.existed {
		return c.results.path
	}
	return ""
}

// Results is the folder of the runtime's results.
func (c *Cache) Results() string { return c.results.path }

// MultusDirs are the cniDirs of the last Read.
func (c *Cache) MultusDirs() []string {
	var dirs []string
	if len(c.configuredMultus) > 0 {
		dirs = append(dirs, c.configuredMultus[0].path)
	}
	return append(dirs, slices.Sorted(maps.Keys(c.discoveredMultus))...)
}

// Unreadable says what of the last Read cost only its own entry, and why: by path
// each file that could not be read in full, and by id each container whose
// files contradict each other.
func (c *Cache) Unreadable() map[string]error { return c.unreadable }

func (c *Cache) readFolder(f *folder, now time.Time, sums map[string]*entryBuilder) error {
	err := f.read(now, c.Recheck, func(id, name string, r *parsedFile) {
		s := sums[id]
		if s == nil {
			s = &entryBuilder{}
			sums[id] = s
		}
		s.add(f.kind, r)
		if r.problem != nil {
			c.unreadable[filepath.Join(f.path, name)] = r.problem
		}
	})
	if errors.Is(err, fs.ErrNotExist) && f.optional && !f.existed {
		if f.parent == "" {
			return nil
		}
		if _, aerr := os.ReadDir(f.parent); aerr == nil {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("CNI cache: %w", err)
	}
	f.existed = true
	return nil
}

// entryBuilder is what the files of one id say together, in whatever order they come.
type entryBuilder struct {
	since                      time.Time
	namespace, name, uid       podField
	netns                      []string
	addresses                  []address
	hasResult                  bool // one of more than the loopback is there
	hasDelegates               bool // Multus' own file is
	byMultus, inMultus         bool
	delegates, delegateResults int    // by Multus' own file; results of them
	cniDir                     string // Multus', by its own config
	mentionsWhereabouts        bool   // whereabouts is
	unreadable                 bool   // a file could not be read in full
	unknownPlugin              bool   // a plugin may run others
}

func (s *entryBuilder) add(kind fileKind, r *parsedFile) {
	if t := r.info.ModTime(); s.since.IsZero() || t.Before(s.since) {
		s.since = t
	}
	s.namespace.add(r.namespace)
	s.name.add(r.name)
	s.uid.add(r.uid)
	s.netns = append(s.netns, r.netns...)
	s.addresses = append(s.addresses, r.addresses...)
	s.mentionsWhereabouts = s.mentionsWhereabouts || r.mentionsWhereabouts
	s.unreadable = s.unreadable || r.problem != nil
	s.unknownPlugin = s.unknownPlugin || r.unknownPlugin
	// A delegate's result is Multus' also while the runtime has none of Multus.
	s.byMultus = s.byMultus || r.multus
	s.inMultus = s.inMultus || kind != runtimeResults
	switch kind {
	case multusDelegates:
		s.hasDelegates, s.delegates = true, r.delegates
		return
	case multusResults:
		s.delegateResults++
	case runtimeResults:
		s.cniDir = max(s.cniDir, r.cniDir)
	}
	s.hasResult = s.hasResult || !r.loopback
}

// provesNoWhereabouts reports whether the files prove that there is no whereabouts address.
func (s *entryBuilder) provesNoWhereabouts() bool {
	return s.hasResult && !s.unreadable && !s.mentionsWhereabouts && !s.unknownPlugin && (s.hasDelegates || !s.byMultus && !s.inMultus)
}

// complete reports whether the files tell all addresses.
func (s *entryBuilder) complete() bool {
	if !s.hasResult || s.unreadable || s.unknownPlugin && len(s.addresses) == 0 {
		return false
	}
	return !s.byMultus && !s.inMultus || s.hasDelegates && s.delegateResults >= s.delegates
}

func (s *entryBuilder) build(id string) (*Entry, error) {
	slices.Sort(s.netns)
	slices.SortFunc(s.addresses, address.compare)
	e := &Entry{
		ID: id, Since: s.since,
		Namespace: s.namespace.value, Name: s.name.value, UID: s.uid.value,
		NetNS: slices.Compact(s.netns), NoWhereabouts: s.provesNoWhereabouts(), ByMultus: s.byMultus, InMultus: s.inMultus,
	}
	e.AddressesComplete = e.NoWhereabouts || s.complete()
	for _, a := range slices.Compact(s.addresses) {
		if len(e.Addresses) == maxAddresses {
			e.AddressesComplete = false
			break
		}
		e.Addresses = append(e.Addresses, a.Address)
	}
	if s.namespace.conflict || s.name.conflict || s.uid.conflict {
		return e, errors.New("its files name different pods")
	}
	return e, nil
}

// podField is a text that several files may say. A UID proves that a pod is another
// one, so one that is in dispute is none.
type podField struct {
	value    string
	conflict bool
}

func (w *podField) add(text string) {
	if text == "" || w.conflict || text == w.value {
		return
	}
	if w.value != "" {
		*w = podField{conflict: true}
		return
	}
	w.value = text
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
