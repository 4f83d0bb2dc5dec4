package reconciler_test

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// outcomes are the lines of a golden file: each outcome, and below it when it comes about.
type outcomes struct{ found map[string][]string }

func (o *outcomes) add(outcome, when string) {
	if o.found == nil {
		o.found = map[string][]string{}
	}
	o.found[outcome] = append(o.found[outcome], when)
}

// lines returns the outcomes below a heading. What happens most often comes first.
func (o *outcomes) lines(heading string) []string {
	lines := []string{"", heading}
	var all []string
	for outcome := range o.found {
		all = append(all, outcome)
	}
	slices.SortFunc(all, func(a, b string) int {
		if n := len(o.found[b]) - len(o.found[a]); n != 0 {
			return n
		}
		return strings.Compare(a, b)
	})
	for _, outcome := range all {
		lines = append(lines, "  "+outcome, "      "+strings.Join(o.found[outcome], " | "))
	}
	return lines
}

// outcome says in words who has the first address of bluePool after a run, and what the run did with that address and
// with the others.
func (s *simulator) outcome(out *reconciler.Result) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	says := []string{s.holder()}
	entries, reservations, others := 0, 0, 0
	for _, it := range out.Released {
		switch {
		case it.Address().String() != blueAddress:
			others++
		case it.Allocation != nil:
			entries++
		default:
			reservations++
		}
	}
	switch {
	case entries == 1 && reservations == 1:
		says = append(says, "released")
	case entries+reservations > 0:
		says = append(says, fmt.Sprintf("released %d entries and %d reservations", entries, reservations))
	}
	for _, x := range out.Refused {
		if x.Address().String() == blueAddress {
			says = append(says, "refused: "+string(x.Why))
		} else {
			says = append(says, "the other is refused: "+string(x.Why))
		}
	}
	if others > 0 {
		says = append(says, "the other is released")
	}
	if n := len(s.holds); n != 1 {
		says = append(says, fmt.Sprintf("%d holds", n))
	}
	return strings.Join(says, "; ")
}

// holder says who has the first address of bluePool. The caller holds mu.
func (s *simulator) holder() string {
	entry, _ := s.entries(bluePool)["1"].(map[string]any)
	reservation := s.reservation(blueAddress)
	switch {
	case entry != nil && reservation != nil:
		return fmt.Sprintf("%s has the address", entry["id"])
	case entry != nil:
		return fmt.Sprintf("%s has the address WITHOUT A RESERVATION", entry["id"])
	case reservation != nil:
		podRef, _, _ := unstructured.NestedString(reservation.Object, "spec", "podref")
		return podRef + " has a reservation alone"
	}
	return "the address is free"
}
