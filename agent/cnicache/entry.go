package cnicache

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// Entry is everything that the caches hold of one container id.
type Entry struct {
	ID string
	// Since is when the first of its files appeared: their oldest mtime.
	Since time.Time
	// Namespace, Name and UID are the pod's by the CNI arguments K8S_POD_*; ""
	// where no file has them, or where the files of one id contradict each other.
	Namespace, Name, UID string
	// NetNS are the paths of network namespaces that its files name, sorted.
	NetNS []string
	// Addresses are the whereabouts addresses that are really configured, sorted
	// by interface and address, each once, at most 128.
	Addresses []v1alpha1.Address
	// NoWhereabouts is set where it has no whereabouts address: there is a result of more than
	// the loopback, every file could be read in full, nothing in them mentions whereabouts, and
	// where Multus is involved, Multus' own list of its networks is one of the files.
	NoWhereabouts bool
	// AddressesComplete is set where Addresses are known to be all: its files prove that
	// it has none, or are a result of each of its networks and could be read in full.
	AddressesComplete bool
	// MayCarry are all ranges of whereabouts that it may have addresses of, where these are not
	// known to be all; none where its files do not name them all.
	MayCarry []v1alpha1.Network
	// ByMultus: its result of the runtime is Multus'. InMultus: one of its files is in
	// a folder of Multus.
	ByMultus, InMultus bool
}

const (
	// maxAddresses is what a SandboxReport takes for one sandbox.
	maxAddresses = 128
	// maxName is how long a name in it may be, and a name of anything in the API.
	maxName = 253
)

// entryBuilder collects the files of one container id, in whatever order they come.
type entryBuilder struct {
	since                      time.Time
	namespace, name, uid       podField
	netns                      []string
	addresses                  []v1alpha1.Address
	hasResult                  bool // of more than the loopback
	hasDelegates               bool // Multus' own file is
	byMultus, inMultus         bool
	delegates, delegateResults int    // networks in Multus' own file; results of them
	cniDir                     string // Multus', by its own config
	mentionsWhereabouts        bool   // anywhere in the files
	unreadable                 bool   // a file could not be read in full
	networks                   []v1alpha1.Network
}

func (b *entryBuilder) add(kind fileKind, r *parsedFile) {
	if t := r.info.ModTime(); b.since.IsZero() || t.Before(b.since) {
		b.since = t
	}
	b.namespace.add(r.namespace)
	b.name.add(r.name)
	b.uid.add(r.uid)
	b.netns = append(b.netns, r.netns...)
	b.addresses = append(b.addresses, r.addresses...)
	b.mentionsWhereabouts = b.mentionsWhereabouts || r.mentionsWhereabouts
	b.unreadable = b.unreadable || r.problem != nil
	for _, s := range r.sources {
		b.networks = append(b.networks, s.network())
	}
	// A delegate's result is Multus' also while the runtime has none of Multus.
	b.byMultus = b.byMultus || r.multus
	b.inMultus = b.inMultus || kind != runtimeResults
	switch kind {
	case multusDelegates:
		b.hasDelegates, b.delegates = true, r.delegates
		return
	case multusResults:
		b.delegateResults++
	case runtimeResults:
		b.cniDir = max(b.cniDir, r.cniDir)
	}
	b.hasResult = b.hasResult || !r.loopback
}

// allNetworks reports whether the files name all networks of the container.
func (b *entryBuilder) allNetworks() bool {
	return b.hasResult && !b.unreadable && (b.hasDelegates || !b.byMultus && !b.inMultus)
}

func (b *entryBuilder) build(id string) *Entry {
	slices.Sort(b.netns)
	slices.SortFunc(b.addresses, compareAddresses)
	e := &Entry{
		ID: id, Since: b.since,
		Namespace: b.namespace.value, Name: b.name.value, UID: b.uid.value,
		NetNS: slices.Compact(b.netns), NoWhereabouts: b.allNetworks() && !b.mentionsWhereabouts, ByMultus: b.byMultus, InMultus: b.inMultus,
	}
	// All addresses are known where each of Multus' networks has a result.
	e.AddressesComplete = e.NoWhereabouts || b.allNetworks() && (!b.hasDelegates || b.delegateResults >= b.delegates)
	if e.Addresses = slices.Compact(b.addresses); len(e.Addresses) > maxAddresses {
		e.Addresses, e.AddressesComplete = e.Addresses[:maxAddresses], false
	}
	if networks := sortedNetworks(b.networks); !e.AddressesComplete && b.allNetworks() && len(networks) <= maxAddresses {
		e.MayCarry = networks
	}
	return e
}

func compareAddresses(a, b v1alpha1.Address) int {
	return cmp.Or(strings.Compare(a.IfName, b.IfName), strings.Compare(a.IP, b.IP), strings.Compare(a.Network, b.Network),
		strings.Compare(a.NetworkName, b.NetworkName), strings.Compare(a.Range, b.Range))
}

func sortedNetworks(all []v1alpha1.Network) []v1alpha1.Network {
	slices.SortFunc(all, func(a, b v1alpha1.Network) int {
		return cmp.Or(strings.Compare(a.Range, b.Range), strings.Compare(a.NetworkName, b.NetworkName))
	})
	return slices.Compact(all)
}

// podField is a name or UID that several files may have. A UID proves that a pod is
// another one, so where they contradict each other it is "".
type podField struct {
	value    string
	conflict bool
}

func (w *podField) add(text string) {
	if text == "" || len(text) > maxName || w.conflict || text == w.value {
		return
	}
	if w.value != "" {
		*w = podField{conflict: true}
		return
	}
	w.value = text
}
