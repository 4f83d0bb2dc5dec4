package judge

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// report is a SandboxReport with what is asked of it often.
type report struct {
	*podstate.Report
	node   []string // its name alone
	unread int      // sandboxes of which no cache entry tells the addresses

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
	r.complete, r.incomplete = make(map[string]bool, len(r.Sandboxes)), map[string]bool{}
	for i := range r.Sandboxes {
		switch b := &r.Sandboxes[i]; {
		case b.State != v1alpha1.SandboxReady && podstate.Closed(b.NetworkClosed):
		case len(b.Addresses) == 0 || b.AddressesUnread:
			r.incomplete[b.Namespace+"/"+b.Name] = true
		case b.State == v1alpha1.SandboxReady:
			r.complete[b.UID] = true
		}
	}
	for i := range r.Attachments {
		if a := &r.Attachments[i]; !podstate.Closed(a.NetworkClosed) {
			r.incomplete[a.Namespace+"/"+a.Name] = true
		}
	}
}

// reportEntry is one mention of a container id in a report; one of the three is set.
type reportEntry struct {
	report  *report
	sandbox *v1alpha1.Sandbox
	att     *v1alpha1.Attachment
	gone    *v1alpha1.Gone
}

// addReports indexes the reports. The order of all that is found in them is by node, then sandboxes
// before attachments before what is gone, then as they stand in the report: the order in which
// reports are read must not decide.
func (x *Index) addReports() {
	n := 0
	for _, r := range x.o.Reports {
		n += len(r.Sandboxes)
	}
	x.byNode = make(map[string]*report, len(x.o.Reports))
	x.byContainerID, x.sandboxesByAddress = make(map[string][]reportEntry, n), make(map[netip.Addr][]sandboxAddress, n)
	for _, r := range slices.SortedStableFunc(slices.Values(x.o.Reports), func(a, b *podstate.Report) int { return cmp.Compare(a.Name, b.Name) }) {
		rep := &report{Report: r, node: []string{r.Name}}
		x.byNode[r.Name] = rep
		x.reports = append(x.reports, rep)
		for i := range r.Sandboxes {
			x.addReportEntry(reportEntry{report: rep, sandbox: &r.Sandboxes[i]})
			if r.Sandboxes[i].AddressesUnread {
				rep.unread++
			}
		}
		for i := range r.Attachments {
			x.addReportEntry(reportEntry{report: rep, att: &r.Attachments[i]})
		}
		for i := range r.Gone {
			x.addReportEntry(reportEntry{report: rep, gone: &r.Gone[i]})
		}
	}
}

func (x *Index) addReportEntry(g reportEntry) {
	if id := g.containerID(); id != "" {
		x.byContainerID[id] = append(x.byContainerID[id], g)
	}
	addresses := g.addresses()
	for i := range addresses {
		if addr, ok := podstate.ParseAddress(addresses[i]); ok {
			x.sandboxesByAddress[addr] = append(x.sandboxesByAddress[addr], sandboxAddress{g, &addresses[i]})
		}
	}
}

// sandboxAddress is an address that a report says is configured in a sandbox.
type sandboxAddress struct {
	reportEntry
	*v1alpha1.Address
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
