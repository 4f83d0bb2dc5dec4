// Package planfile makes plans of releases, reads the files that were made of them, and compares them with a later
// judgement. apply releases an item only while nothing that a reviewer read about it has changed.
package planfile

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/explanation"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Select makes the plan of a pass a plan for review: items that only await confirmation are released. All other gates
// count.
func Select(p *reconciler.Plan) {
	p.Refused = slices.DeleteFunc(p.Refused, func(x reconciler.Refused) bool {
		awaits := x.Gate.Why == reconciler.AwaitingConfirmation && len(x.Also) == 0
		if awaits {
			p.Release = append(p.Release, x.Item)
		}
		return awaits
	})
	slices.SortStableFunc(p.Release, judge.ByPlace)
}

// New returns the plan of items.
func New(h document.Header, items []*judge.Item) *document.Plan {
	p := &document.Plan{Header: h, Items: document.Rows(items, planned)}
	for i := range p.Items {
		p.Items[i].Digest = digest(h, p.Items[i])
	}
	return p
}

// planned returns an item with its evidence. It omits nodes where the verdict rests on all of them: one that joins or
// leaves the cluster changes nothing then.
func planned(it *judge.Item) document.PlanItem {
	d := document.PlanItem{AllocationRow: document.OfItem(&report.Report{}, it), Key: it.Key()}
	if d.IsReservation {
		d.Reservation, d.ReservationUID, d.Pool, d.IsReservation = d.Pool, it.Reservation.UID, "", false
	}
	if ev := it.Evidence(); ev != nil {
		d.Evidence = *explanation.Evidence(ev)
		s := &d.Evidence.Sandbox
		switch ev.Sandbox {
		case judge.Absent, judge.NoSource:
			s.Nodes = []string{}
		case judge.NoFreshReport:
			s.Nodes = s.WithoutReport
		}
		s.WithoutReport = []string{}
	}
	return d
}

// digest binds an item to its plan. It is no signature: whoever can edit a file can compute it.
func digest(h document.Header, it document.PlanItem) string {
	it.Digest = ""
	text, _ := json.Marshal([]any{h.Cluster.UID, h.ObservedAt, it}) // strings, booleans and times
	return fmt.Sprintf("sha256:%x", sha256.Sum256(text))
}

func idOf(it *document.PlanItem) judge.ID {
	return judge.ID{Object: it.Pool + it.Reservation, UID: it.ReservationUID, Key: it.Key, ContainerID: it.ContainerID,
		PodRef: it.PodRef, IfName: it.IfName}
}

// File is a plan that was read.
type File struct {
	document.Plan
	items map[judge.ID]*document.PlanItem
}

// Read reads a plan in JSON or YAML. It returns an error for items that were edited, added or repeated.
func Read(text []byte) (*File, error) {
	text, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	f := &File{items: map[judge.ID]*document.PlanItem{}}
	var head document.Header
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, err
	}
	if head.APIVersion != document.APIVersion || head.Kind != document.KindPlan {
		return nil, fmt.Errorf("apiVersion %q, kind %q: must be %s and %s", head.APIVersion, head.Kind, document.APIVersion,
			document.KindPlan)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&f.Plan); err != nil {
		return nil, fmt.Errorf("%w (the plan is of version %s)", err, head.ToolVersion)
	}
	for i := range f.Items {
		it := &f.Items[i]
		if it.Digest != digest(f.Header, *it) {
			return nil, fmt.Errorf("items[%d].digest: %s of %s was edited, is of another plan, or is of another version (%s); "+
				"items may only be deleted", i, cmp.Or(it.IP, it.Key), it.Pool+it.Reservation, head.ToolVersion)
		}
		if f.items[idOf(it)] != nil {
			return nil, fmt.Errorf("items[%d]: %s of %s is in the plan twice", i, cmp.Or(it.IP, it.Key), it.Pool+it.Reservation)
		}
		f.items[idOf(it)] = it
	}
	return f, nil
}

// futureLimit is how far the clocks of two API servers may differ.
const futureLimit = time.Minute

// Check returns an error for a plan of another cluster, and for one that is too old or of the future.
func (f *File) Check(uid string, now time.Time, maxAge time.Duration) error {
	switch age := now.Sub(f.ObservedAt); {
	case uid == "":
		return ErrNoUID
	case uid != f.Cluster.UID:
		return fmt.Errorf("cluster.uid %s: the plan is of another cluster (%s); this cluster's is %s", f.Cluster.UID,
			f.Cluster.Server, uid)
	case age > maxAge:
		return fmt.Errorf("observedAt %s: the plan is older than --max-age %s; make a new plan",
			f.ObservedAt.Format(time.RFC3339), maxAge)
	case age < -futureLimit:
		return fmt.Errorf("observedAt %s: the plan is of the future; the API server's time is %s",
			f.ObservedAt.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return nil
}
