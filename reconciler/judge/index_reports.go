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
	sandboxes   []v1alpha1.Sandbox
	attachments []v1alpha1.Attachment
	*podstate.Report
	node   []string // its name alone
	unread int      // sandboxes of which no cache entry tells the addresses
}

// reportEntry is one mention of a container id in a report; one of the three is set.
type reportEntry struct {
	report *report
	number uint32
	box    *v1alpha1.Sandbox
	att    *v1alpha1.Attachment
	gone   *v1alpha1.Gone
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
	x.ids, x.boxes = newLookup(ids), newLookup(addresses)
	var byID, byAddress additions
	for _, r := range x.o.Reports {
		x.touched.report(r)
		x.reports = append(x.reports, x.addReport(r, len(x.blocks), &byID, &byAddress))
	}
	slices.SortStableFunc(x.reports, func(a, b *report) int { return cmp.Compare(a.Name, b.Name) })
}

// addReport gives the entries of a report the numbers from a block on.
func (x *Index) addReport(r *podstate.Report, block int, byID, byAddress *additions) *report {
	rep := &report{Report: r, fresh: r.Fresh(x.now), first: uint32(block * blockSize), node: []string{r.Name},
		sandboxes: r.Sandboxes, attachments: r.Attachments}
	x.byNode[r.Name] = rep
	number := rep.first
	for i := range r.Sandboxes {
		b := &r.Sandboxes[i]
		x.sight(number, b.ID, b.Addresses, b.State == v1alpha1.SandboxReady, byID, byAddress)
		if b.AddressesUnread {
			rep.unread++
		}
		number++
	}
	for i := range r.Attachments {
		x.sight(number, r.Attachments[i].ID, r.Attachments[i].Addresses, false, byID, byAddress)
		number++
	}
	for i := range r.Gone {
		x.sight(number, r.Gone[i].ID, nil, false, byID, byAddress)
		number++
	}
	x.ids.addAll(byID, &x.touched, func(int) {})
	x.boxes.addAll(byAddress, &x.touched, func(i int) { x.shared = append(x.shared, byAddress.addresses[i]) })
	for ; block*blockSize < int(number); block++ {
		if block == len(x.blocks) {
			x.blocks = append(x.blocks, nil)
		}
		x.blocks[block] = rep
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
	heard, was := old.fresh, old.Report
	if old.SandboxReport == r.SandboxReport { // its Lease alone has changed
		old.Report, old.fresh = r, r.Fresh(x.now)
	} else {
		block := x.removeReport(old, len(r.Sandboxes)+len(r.Attachments)+len(r.Gone))
		x.reports[at] = x.addReport(r, block, &additions{}, &additions{})
	}
	now := x.reports[at]
	if heard != now.fresh || !heard && (was.LeaseRenewed != now.LeaseRenewed || was.Written != now.Written || was.Machine != now.Machine || was.BootID != now.BootID) {
		x.agents = [2]*nodeSet{}
		clear(x.nodeSets)
	}
	return false
}

// removeReport returns the block from which on as many entries find room as those of
// the report that follows.
func (x *Index) removeReport(r *report, entries int) (block int) {
	number := r.first
	remove := func(id string, addresses []v1alpha1.Address) {
		if id != "" {
			x.ids.remove(x.text(id), number)
		}
		for _, a := range addresses {
			if addr, ok := podstate.ParseAddress(a); ok {
				x.boxes.remove(x.address(addr), number)
			}
		}
		number++
	}
	for i := range r.sandboxes {
		remove(r.sandboxes[i].ID, r.sandboxes[i].Addresses)
	}
	for i := range r.attachments {
		remove(r.attachments[i].ID, r.attachments[i].Addresses)
	}
	for i := range r.Gone {
		remove(r.Gone[i].ID, nil)
	}
	room := 0
	for block = int(r.first / blockSize); block+room < len(x.blocks) && x.blocks[block+room] == r; room++ {
		x.blocks[block+room] = nil
	}
	if entries > room*blockSize {
		return len(x.blocks)
	}
	return block
}

func (x *Index) sight(number uint32, id string, addresses []v1alpha1.Address, ready bool, byID, byAddress *additions) {
	if id != "" {
		byID.add(x.text(id), number)
	}
	for i := range addresses {
		a := &addresses[i]
		addr, ok := podstate.ParseAddress(*a)
		if !ok {
			continue
		}
		byAddress.add(x.address(addr), number)
		byAddress.addresses = append(byAddress.addresses, addr)
		if (ready || !x.o.Fenced.IsZero()) && slices.ContainsFunc(x.poolsAt(addr), func(p *pool) bool { return p.lacks(addr) && p.of(a.NetworkName) }) {
			x.loose = append(x.loose, addr)
		}
		for _, p := range x.odd {
			p.carry(addr)
		}
	}
}

// entry is the entry of a report with this number.
func (x *Index) entry(number uint32) reportEntry {
	r := x.blocks[number/blockSize]
	s := reportEntry{report: r, number: number}
	switch i := int(number - r.first); {
	case i < len(r.sandboxes):
		s.box = &r.sandboxes[i]
	case i < len(r.sandboxes)+len(r.attachments):
		s.att = &r.attachments[i-len(r.sandboxes)]
	default:
		s.gone = &r.Gone[i-len(r.sandboxes)-len(r.attachments)]
	}
	return s
}

// reportEntries adds the mentions of a container id, by the names of the reports.
func (x *Index) reportEntries(into []reportEntry, id string) []reportEntry {
	return x.sightingsOf(into, id, x.text(id))
}

func (x *Index) sightingsOf(into []reportEntry, id string, hash uint64) []reportEntry {
	if id == "" {
		return into
	}
	for c := x.ids.find(hash); ; {
		number, ok := c.next()
		if !ok {
			break
		}
		if s := x.entry(number); s.containerID() == id {
			into = append(into, s)
		}
	}
	if len(into) > 1 {
		slices.SortStableFunc(into, bySighting)
	}
	return into
}

// bySighting orders by node, then sandboxes before attachments before what is
// gone, then as they stand in the report: the order in which reports are read, or
// amended, must not decide.
func bySighting(a, b reportEntry) int {
	kind := func(s *reportEntry) int {
		switch {
		case s.box != nil:
			return 0
		case s.att != nil:
			return 1
		}
		return 2
	}
	return cmp.Or(cmp.Compare(a.report.Name, b.report.Name), cmp.Compare(kind(&a), kind(&b)), cmp.Compare(a.number, b.number))
}

// boxesAt are the sandboxes and attachments that a report gives an address, each
// once for each of its mentions, with the mention.
func (x *Index) boxesAt(addr netip.Addr) []boxAddress {
	var found []boxAddress
	for _, number := range x.boxes.all(x.address(addr)) {
		s := x.entry(number)
		for _, a := range s.addresses() {
			if ip, ok := podstate.ParseAddress(a); ok && ip == addr {
				found = append(found, boxAddress{s, a})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b boxAddress) int { return bySighting(a.reportEntry, b.reportEntry) })
	return found
}

// boxAddress is an address that a report says is configured in a sandbox.
type boxAddress struct {
	reportEntry
	v1alpha1.Address
}

func (g *reportEntry) addresses() []v1alpha1.Address {
	switch {
	case g.box != nil:
		return g.box.Addresses
	case g.att != nil:
		return g.att.Addresses
	}
	return nil
}
