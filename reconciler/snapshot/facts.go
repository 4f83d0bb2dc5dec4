package snapshot

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Facts are what an observation has beside objects. The manifest of a bundle has them. Its objects are all that was
// observed, and reports count by the API server's times, as in the live cluster.
type Facts struct {
	Now               time.Time `json:"now"`
	Objects           int       `json:"objects"` // in the bundle
	Paused            bool      `json:"paused"`
	Acknowledged      time.Time `json:"acknowledged,omitzero"`
	ReportsUnreadable bool      `json:"reportsUnreadable"`
	Unreadable        []string  `json:"unreadable,omitempty"`
	Warnings          []string  `json:"warnings,omitempty"`
	IPAMClaimsUnread  string    `json:"ipamClaimsUnread,omitempty"`
	// Breaker and Restore are what the breaker counts and the state of the last restore of etcd, as processes share them.
	Breaker string `json:"breaker,omitempty"`
	Restore string `json:"restore,omitempty"`
}

// facts returns the facts of an observation.
func (e *Encoder) facts(o *judge.Observation) *Facts {
	f := &Facts{Now: o.Now, Paused: o.Paused, Acknowledged: o.Acknowledged, ReportsUnreadable: o.ReportsUnreadable,
		Unreadable: o.Unreadable, Warnings: o.Warnings, IPAMClaimsUnread: o.IPAMClaimsUnread}
	if e.Rename != nil { // the sentences have names
		f.Unreadable = slices.Repeat([]string{"an object could not be read"}, len(o.Unreadable))
	}
	return f
}

func (s *Snapshot) addFacts(o *object) error {
	var manifest struct {
		Facts *Facts `json:"judged"`
	}
	err := decode(o.text, &manifest)
	s.facts = manifest.Facts
	return err
}

// useFacts checks that the bundle has all of its objects: a missing pod would count as gone.
func (s *Snapshot) useFacts() error {
	if n := s.objects - 1; n != s.facts.Objects { // without the manifest
		return fmt.Errorf("the manifest counts %d objects, and there are %d: judge the bundle as sysdump wrote it",
			s.facts.Objects, n)
	}
	if s.now.IsZero() {
		s.now = s.facts.Now
	}
	return nil
}

// complete adds the facts to the objects of an observation.
func (f *Facts) complete(o *judge.Observation) *judge.Observation {
	o.Paused, o.Acknowledged, o.Warnings = f.Paused, f.Acknowledged, slices.Clone(f.Warnings)
	o.IPAMClaimsUnread = f.IPAMClaimsUnread
	o.ReportsUnreadable = o.ReportsUnreadable || f.ReportsUnreadable
	o.Unreadable = slices.Concat(f.Unreadable, o.Unreadable)
	return o
}

// Stores returns what the bundle has of what processes share; nil for any other snapshot.
func (s *Snapshot) Stores() (breaker, restore reconciler.StateStore) {
	if s.facts == nil {
		return nil, nil
	}
	return keptText(s.facts.Breaker), keptText(s.facts.Restore)
}

// keptText is a StateStore that keeps its text.
type keptText string

func (k keptText) Update(_ context.Context, change func(kept string) (string, error)) error {
	_, err := change(string(k))
	return err
}
