package cnicache

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// Entry is the content of the caches for one container id.
type Entry struct {
	// Since is the oldest mtime of its files.
	Since time.Time
	// Namespace, Name and UID are the CNI arguments K8S_POD_*. Each is "" if no file has it, or files differ.
	Namespace, Name, UID string
	// NetNS are the paths of network namespaces in its files, sorted.
	NetNS []string
	// Addresses are the configured addresses of whereabouts' ranges, sorted and without duplicates, as Fit leaves them.
	Addresses []v1alpha1.Address
	// Interfaces are the names of interfaces in its files without one of the addresses, sorted, as Fit leaves them.
	Interfaces []string
	// IsCut means that Fit left something out.
	IsCut bool
	// IsUnread means that a file could not be read in full. There may be any addresses beside Addresses.
	IsUnread bool
	// HasNoWhereabouts means that it certainly has no whereabouts address. A result of more than the loopback
	// exists, every file could be read in full, no file mentions whereabouts, and with Multus, its list of networks
	// is one of the files.
	HasNoWhereabouts bool
	// HasAllAddresses means that Addresses are complete. Its files could be read in full, and prove that it has no
	// whereabouts address or are a result of each of its networks.
	HasAllAddresses bool
	// MayCarry are the whereabouts ranges of its networks if Addresses are incomplete and its files name them all, as Fit
	// leaves them.
	MayCarry []v1alpha1.Network
	// ByMultus means that its runtime result is from Multus, InMultus that one of its files is in a folder of Multus.
	ByMultus, InMultus bool
}

const (
	// MaxAddresses is the most addresses of one sandbox that a SandboxReport accepts.
	MaxAddresses = 128
	// maxKept is the most addresses and interfaces of one file that are kept, far more than a SandboxReport accepts.
	maxKept = 8 * MaxAddresses
	// maxDelegates is the most networks of Multus' own file that are kept. A container with results of so many has more
	// addresses, or more interfaces without one, than a SandboxReport accepts: Addresses are incomplete anyway.
	maxDelegates = 2*MaxAddresses + 1
	// maxName is the longest name that a SandboxReport and the API accept.
	maxName = 253
)

// entryBuilder collects the files of one container id in any order.
type entryBuilder struct {
	Entry                      // incomplete until build
	namespace, name, uid       podField
	hasResult                  bool       // of more than the loopback
	hasDelegates               bool       // Multus' own file exists
	delegates, delegateResults []delegate // networks in Multus' own file; those of Multus' results
	cniDir                     string     // of Multus, by its own config
	mentionsWhereabouts        bool       // in any of the files
	networks                   []v1alpha1.Network
}

func (b *entryBuilder) add(kind fileKind, r *parsedFile) {
	if t := r.info.ModTime(); b.Since.IsZero() || t.Before(b.Since) {
		b.Since = t
	}
	b.namespace.add(r.namespace)
	b.name.add(r.name)
	b.uid.add(r.uid)
	b.NetNS = append(b.NetNS, r.netns...)
	b.Addresses = append(b.Addresses, r.addresses...)
	b.mentionsWhereabouts = b.mentionsWhereabouts || r.mentionsWhereabouts
	b.Interfaces = append(b.Interfaces, r.interfaces...)
	b.IsUnread = b.IsUnread || r.problem != nil
	for _, s := range r.sources {
		b.networks = append(b.networks, s.Network)
	}
	// A delegate's result is by Multus even if the runtime has no result of Multus yet.
	b.ByMultus = b.ByMultus || r.multus
	b.InMultus = b.InMultus || kind != runtimeResults
	switch kind {
	case multusDelegates:
		b.hasDelegates, b.delegates = true, append(b.delegates, r.delegates...)
		return
	case multusResults:
		b.delegateResults = append(b.delegateResults, r.delegates...)
	case runtimeResults:
		b.cniDir = max(b.cniDir, r.cniDir)
	}
	b.hasResult = b.hasResult || !r.loopback
}

// hasAllNetworks reports whether the files name all networks of the container.
func (b *entryBuilder) hasAllNetworks() bool {
	return b.hasResult && !b.IsUnread && (b.hasDelegates || !b.ByMultus && !b.InMultus)
}

// hasAllResults reports whether each network in Multus' own file has a result of its own: of the same name, and on its
// interface. A result of another network, which was plugged in later, does not stand for one that is missing.
func (b *entryBuilder) hasAllResults() bool {
	others := sets.New(b.delegateResults...)
	for _, d := range b.delegates {
		if d.ifName != "" && !others.Has(d) {
			return false
		}
	}
	others.Delete(b.delegates...)
	networks := sets.New[string]()
	for d := range others {
		networks.Insert(d.network)
	}
	return !slices.ContainsFunc(b.delegates, func(d delegate) bool { return d.ifName == "" && !networks.Has(d.network) })
}

func (b *entryBuilder) build() *Entry {
	e := &b.Entry
	e.Namespace, e.Name, e.UID = b.namespace.value, b.name.value, b.uid.value
	slices.Sort(e.NetNS)
	e.NetNS = slices.Compact(e.NetNS)
	slices.SortFunc(e.Addresses, compareAddresses)
	e.HasNoWhereabouts = b.hasAllNetworks() && !b.mentionsWhereabouts
	e.HasAllAddresses = e.HasNoWhereabouts || b.hasAllNetworks() && b.hasAllResults()
	e.Addresses = slices.Compact(e.Addresses)
	e.Interfaces = InterfacesWithout(e.Addresses, e.Interfaces)
	s := v1alpha1.Sandbox{Addresses: e.Addresses, Interfaces: e.Interfaces, AddressesUnread: !e.HasAllAddresses}
	if networks := SortedNetworks(b.networks); s.AddressesUnread && b.hasAllNetworks() && len(networks) <= MaxAddresses {
		s.MayCarry = networks
	}
	e.IsCut = Fit(&s, MaxBytes)
	e.Addresses, e.Interfaces, e.MayCarry, e.HasAllAddresses = s.Addresses, s.Interfaces, s.MayCarry, !s.AddressesUnread
	return e
}

// InterfacesWithout returns the names of interfaces that none of the addresses is on, sorted and without duplicates.
func InterfacesWithout(addresses []v1alpha1.Address, names []string) (without []string) {
	for _, name := range names {
		if !slices.ContainsFunc(addresses, func(a v1alpha1.Address) bool { return a.IfName == name }) {
			without = append(without, name)
		}
	}
	slices.Sort(without)
	return slices.Compact(without)
}

func compareAddresses(a, b v1alpha1.Address) int {
	return cmp.Or(strings.Compare(a.IfName, b.IfName), strings.Compare(a.IP, b.IP), strings.Compare(a.Network, b.Network),
		strings.Compare(a.NetworkName, b.NetworkName), strings.Compare(a.Range, b.Range),
		strings.Compare(strconv.FormatBool(a.Unattributed), strconv.FormatBool(b.Unattributed)))
}

// podField is a name or UID in several files, "" if they differ: a UID proves that two pods are not the same.
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
