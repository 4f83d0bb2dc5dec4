package screen

import (
	"fmt"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
)

// Comparison writes what two clusters have in common.
func (s *Screen) Comparison(d *view.Comparison) {
	s.List()
	s.circumstances(view.Circumstances{Limits: view.Limits{Notes: d.Notes()}})
	for _, c := range d.Clusters {
		s.fact(c.Label, fmt.Sprintf("%s at %s: %s, %s", c.Cluster.Snapshot, c.ObservedAt.Format(time.RFC3339),
			Count(c.Pools, "pool"), Count(c.Allocations, "allocation")))
	}
	for _, text := range d.SameNetworks {
		s.fact("one network", text)
	}
	s.Text("", map[string]string{
		"Apart":   "Nothing is in both clusters on one network.",
		"Shared":  "Both clusters have addresses, or assign ranges, of one network.",
		"Unknown": "Nothing that is known is in both clusters on one network. But not everything is known.",
	}[d.Answer])
	for _, why := range d.MoreUnknown {
		s.Text("Unknown: ", why)
	}
	s.sharedAddresses("IN BOTH CLUSTERS", "Yes", d.Addresses)
	s.sharedAddresses("MAY BE IN BOTH CLUSTERS", "Unknown", d.Addresses)
	s.sharedRanges("ASSIGNED BY BOTH CLUSTERS", "Yes", d)
	s.sharedRanges("MAY BE ASSIGNED BY BOTH CLUSTERS", "Unknown", d)
	s.sharedRanges("OTHER NETWORKS WITH THE SAME ADDRESSES", "No", d)
}

// sharedAddresses writes a section: a row for each who has an address. A long section that is cut has the count of each
// network first.
func (s *Screen) sharedAddresses(title, same string, all []view.SharedAddress) {
	found := lists.Filter(all, func(a view.SharedAddress) bool { return a.Same == same })
	if len(found) == 0 {
		return
	}
	s.Title(title, len(found))
	shown := found[:s.shown(lists.Map(found, func(a view.SharedAddress) string { return "on " + a.Network }))]
	var rows [][]string
	why := map[int]string{} // by the last row of an address
	for _, a := range shown {
		for _, h := range a.Holders {
			place := h.Pool
			if h.Reservation != "" {
				place = h.Reservation + " (reservation)"
			}
			rows = append(rows, []string{a.IP, a.Same, h.Cluster, h.By, h.Node, strings.Join(h.How, ", "), h.Verdict, place,
				a.Network})
		}
		why[len(rows)-1] = a.Why
	}
	columns := []string{"ADDRESS", "SAME", "CLUSTER", "HAD BY", "NODE", "HOW", "VERDICT", "POOL OR RESERVATION", "NETWORK"}
	s.Table(columns, rows, func(i int) {
		if why[i] != "" {
			s.Text("    ", why[i])
		}
	})
	s.more(len(found)-len(shown), "row")
}

// sharedRanges writes a section: a row for each two kinds of definitions with addresses in common.
func (s *Screen) sharedRanges(title, same string, d *view.Comparison) {
	found := lists.Filter(d.Ranges, func(r view.SharedRange) bool { return r.Same == same })
	if len(found) == 0 {
		return
	}
	s.Title(title, len(found))
	shown := found[:s.shown(lists.Map(found, func(r view.SharedRange) string { return "on " + r.Network }))]
	rows := lists.Map(shown, func(r view.SharedRange) []string {
		row := []string{rangeList(r.Shared, r.MoreShared), r.Same}
		for _, a := range r.Assigned {
			names := s.names(a.Definitions, fewNames)
			if a.MoreDefinitions > 0 {
				names += fmt.Sprintf(" and %d more", a.MoreDefinitions)
			}
			row = append(row, names)
		}
		return append(row, r.Network)
	})
	columns := []string{"ADDRESSES", "SAME", "BY " + d.Clusters[0].Label, "BY " + d.Clusters[1].Label, "NETWORK"}
	s.Table(columns, rows, func(i int) {
		if shown[i].Why != "" {
			s.Text("    ", shown[i].Why)
		}
	})
	s.more(len(found)-len(shown), "row")
}
