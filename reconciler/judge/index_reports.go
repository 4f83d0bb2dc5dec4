package judge

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// report is a SandboxReport as of now.
type report struct {
	// What leads from a number to an entry is beside each other.
	first       uint32 // the number of its first entry
	fresh       bool
	listed      []v1alpha1.Sandbox
	attachments []v1alpha1.Attachment
	*podstate.Report
	node   []string // its name alone
	unread int      // listed of which no cache entry tells the addresses

	complete, incomplete map[string]bool // see hasComplete and lacks; nil until one of them is asked
}

// hasComplete reports whether a sandbox with this UID is listed as READY with all of its
// addresses. Every pod that carries an address in question asks.
func (r *report) hasComplete(uid string) bool {
	r.readCompleteness()
	return r.complete[uid]
}

// lacks reports whether a sandbox of the pod by that name may have addresses that are not listed.
func (r *report) lacks(pod string) bool {
	r.readCompleteness()
	return r.incomplete[pod]
}

func (r *report) readCompleteness() {
	if r.complete != nil {
		return
	}
	r.complete, r.incomplete = make(map[string]bool, len(r.listed)), map[string]bool{}
	for i := range r.listed {
		switch b := &r.listed[i]; {
		case b.State != v1alpha1.SandboxReady && podstate.Closed(b.NetworkClosed):
		case len(b.Addresses) == 0 || b.AddressesUnread:
			r.incomplete[b.Namespace+"/"+b.Name] = true
		case b.State == v1alpha1.SandboxReady:
			r.complete[b.UID] = true
		}
	}
	for i := range r.attachments {
		if a := &r.attachments[i]; !podstate.Closed(a.NetworkClosed) {
			r.incomplete[a.Namespace+"/"+a.Name] = true
		}
	}
}

// reportEntry is one mention of a container id in a report; one of the three is set.
type reportEntry struct {
	report  *report
	number  uint32
	sandbox *v1alpha1.Sandbox
	att     *v1alpha1.Attachment
	gone    *v1alpha1.Gone
}

// blockSize is how many numbers go to one report at a time: a number so leads to
// its report without a search.
const blockSize = 64

func (x *Index) addReports() {
	x.byNode = make(map[string]*report, len(x.o.Reports))
	ids, addresses := 0, 0
	for _, r := range x.o.Reports {
		ids += len(r.Sandboxes) + len(r.Attachments) + len(r.Gone)
		for i := range r.Sandboxes {
			addresses += len(r.Sandboxes[i].Addresses)
		}
		for i := range r.Attachments {
			addresses += len(r.Attachments[i].Addresses)
		}
	}
	x.byContainerID, x.sandboxesByAddress = newLookup(ids), newLookup(addresses)
	for _, r := range x.o.Reports {
		x.reports = append(x.reports, x.addReport(r, len(x.reportsByNumber)))
	}
	slices.SortStableFunc(x.reports, func(a, b *report) int { return cmp.Compare(a.Name, b.Name) })
}

// addReport gives the entries of a report the numbers from a block on.
func (x *Index) addReport(r *podstate.Report, block int) *report {
	rep := &report{Report: r, fresh: r.Fresh(x.now), first: uint32(block * blockSize), node: []string{r.Name},
		listed: r.Sandboxes, attachments: r.Attachments}
	x.byNode[r.Name] = rep
	number := rep.first
	for i := range r.Sandboxes {
		b := &r.Sandboxes[i]
		x.addReportEntry(number, b.ID, b.Addresses, b.State == v1alpha1.SandboxReady)
		if b.AddressesUnread {
			rep.unread++
		}
		number++
	}
	for i := range r.Attachments {
		x.addReportEntry(number, r.Attachments[i].ID, r.Attachments[i].Addresses, false)
		number++
	}
	for i := range r.Gone {
		x.addReportEntry(number, r.Gone[i].ID, nil, false)
		number++
	}
	for ; block*blockSize < int(number); block++ {
		if block == len(x.reportsByNumber) {
			x.reportsByNumber = append(x.reportsByNumber, nil)
		}
		x.reportsByNumber[block] = rep
	}
	return rep
}

// setReport reports whether all must be built again.
func (x *Index) setReport(name string, r *podstate.Report) (rebuild bool) {
	at, there := slices.BinarySearchFunc(x.reports, name, func(r *report, name string) int { return cmp.Compare(r.Name, name) })
	switch {
	case !there && r == nil:
		return false
	case !there:
		x.reports = slices.Insert(x.reports, at, &report{Report: r})
		return true
	case r == nil:
		x.reports = slices.Delete(x.reports, at, at+1)
		return true
	}
	old := x.reports[at]
	wasFresh, was := old.fresh, old.Report
	if old.SandboxReport == r.SandboxReport { // its Lease alone has changed
		old.Report, old.fresh = r, r.Fresh(x.now)
	} else {
		block := x.removeReport(old, len(r.Sandboxes)+len(r.Attachments)+len(r.Gone))
		x.reports[at] = x.addReport(r, block)
	}
	now := x.reports[at]
	if wasFresh != now.fresh || !wasFresh && (was.LeaseRenewed != now.LeaseRenewed || was.Written != now.Written || was.Machine != now.Machine || was.BootID != now.BootID) {
		x.agents = [2]*nodeSet{}
		clear(x.nodeSets)
	}
	return false
}

// removeReport returns the block from which on as many entries find room as those of
// the report that follows.
func (x *Index) removeReport(r *report, entries int) (block int) {
	end := r.first + uint32(len(r.listed)+len(r.attachments)+len(r.Gone))
	var byID, byAddress []uint64
	remove := func(id string, addresses []v1alpha1.Address) {
		byID = append(byID, x.text(id))
		for _, a := range addresses {
			if addr, ok := podstate.ParseAddress(a); ok {
				byAddress = append(byAddress, x.address(addr))
			}
		}
	}
	for i := range r.listed {
		remove(r.listed[i].ID, r.listed[i].Addresses)
	}
	for i := range r.attachments {
		remove(r.attachments[i].ID, r.attachments[i].Addresses)
	}
	for i := range r.Gone {
		remove(r.Gone[i].ID, nil)
	}
	x.byContainerID.removeFrom(r.first, end, byID...)
	x.sandboxesByAddress.removeFrom(r.first, end, byAddress...)
	room := 0
	for block = int(r.first / blockSize); block+room < len(x.reportsByNumber) && x.reportsByNumber[block+room] == r; room++ {
		x.reportsByNumber[block+room] = nil
	}
	if entries > room*blockSize {
		return len(x.reportsByNumber)
	}
	return block
}

func (x *Index) addReportEntry(number uint32, id string, addresses []v1alpha1.Address, ready bool) {
	if id != "" {
		x.byContainerID.add(x.text(id), number)
	}
	for i := range addresses {
		a := &addresses[i]
		addr, ok := podstate.ParseAddress(*a)
		if !ok {
			continue
		}
		if x.sandboxesByAddress.add(x.address(addr), number) {
			x.maybeConflicting = append(x.maybeConflicting, addr)
		}
		if (ready || !x.o.Fenced.IsZero()) && (slices.ContainsFunc(x.poolsAt(addr), func(p *pool) bool { return p.hasNoEntryFor(addr) && p.isOfNetwork(a.NetworkName) }) || x.missingPool(id, a, addr) != nil) {
			x.maybeUnrecorded = append(x.maybeUnrecorded, addr)
		}
		for _, p := range x.ambiguousPools {
			p.podCarries(addr)
		}
	}
}

// entry is the entry of a report with this number.
func (x *Index) entry(number uint32) reportEntry {
	r := x.reportsByNumber[number/blockSize]
	s := reportEntry{report: r, number: number}
	switch i := int(number - r.first); {
	case i < len(r.listed):
		s.sandbox = &r.listed[i]
	case i < len(r.listed)+len(r.attachments):
		s.att = &r.attachments[i-len(r.listed)]
	default:
		s.gone = &r.Gone[i-len(r.listed)-len(r.attachments)]
	}
	return s
}

// reportEntries adds the mentions of a container id, by the names of the reports.
func (x *Index) reportEntries(into []reportEntry, id string) []reportEntry {
	if id == "" {
		return into
	}
	for number := range x.byContainerID.each(x.text(id)) {
		if s := x.entry(number); s.containerID() == id {
			into = append(into, s)
		}
	}
	if len(into) > 1 {
		slices.SortStableFunc(into, byReportEntry)
	}
	return into
}

// byReportEntry orders by node, then sandboxes before attachments before what is
// gone, then as they stand in the report: the order in which reports are read, or
// amended, must not decide.
func byReportEntry(a, b reportEntry) int {
	kind := func(s *reportEntry) int {
		switch {
		case s.sandbox != nil:
			return 0
		case s.att != nil:
			return 1
		}
		return 2
	}
	return cmp.Or(cmp.Compare(a.report.Name, b.report.Name), cmp.Compare(kind(&a), kind(&b)), cmp.Compare(a.number, b.number))
}

// sandboxesAt are the sandboxes and attachments that a report gives an address, each
// once for each of its mentions, with the mention.
func (x *Index) sandboxesAt(addr netip.Addr) []sandboxAddress {
	var found []sandboxAddress
	for _, number := range x.sandboxesByAddress.all(x.address(addr)) {
		s := x.entry(number)
		for _, a := range s.addresses() {
			if ip, ok := podstate.ParseAddress(a); ok && ip == addr {
				found = append(found, sandboxAddress{s, a})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b sandboxAddress) int { return byReportEntry(a.reportEntry, b.reportEntry) })
	return found
}

// sandboxAddress is an address that a report says is configured in a sandbox.
type sandboxAddress struct {
	reportEntry
	v1alpha1.Address
}

func (g *reportEntry) addresses() []v1alpha1.Address {
	switch {
	case g.sandbox != nil:
		return g.sandbox.Addresses
	case g.att != nil:
		return g.att.Addresses
	}
	return nil
}
