// Package planfile makes plans of releases, reads their files, and compares them with a later judgement. apply releases
// an item only while nothing that a reviewer read about it has changed.
package planfile

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/internal/fileform"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// Select returns what a plan of a dry run has, by place. Review replaces the wait for a confirmation, so that an item
// that only waits would be released. All other gates count.
func Select(out *reconciler.Result) (items []*judge.Item) {
	for i := range out.Refused {
		x := &out.Refused[i]
		if x.Gate.Why == plan.AwaitingConfirmation && len(x.Also) == 0 {
			x.Gate = plan.Gate{Why: plan.DryRunRefusal}
		}
		if x.Gate.Why == plan.DryRunRefusal {
			items = append(items, x.Item)
		}
	}
	slices.SortStableFunc(items, judge.ByPlace)
	return items
}

// New returns the plan of items.
func New(h view.Header, items []*judge.Item) *view.Plan {
	return &view.Plan{Header: h, Items: lists.Map(items, func(it *judge.Item) view.PlanItem {
		d := planned(it)
		d.Digest = digest(h, d)
		return d
	})}
}

// NewPools returns the removals of pools in a plan.
func NewPools(h view.Header, pools []*ippool.Pool) []view.PlanPool {
	return lists.Map(pools, func(p *ippool.Pool) view.PlanPool {
		d := view.PlanPool{Pool: p.Ref(), Range: p.RangeText, UID: p.UID}
		d.Digest = poolDigest(h, d)
		return d
	})
}

func poolDigest(h view.Header, p view.PlanPool) string {
	p.Digest = ""
	text, _ := json.Marshal([]any{h.Cluster.UID, h.ObservedAt, p}) // strings
	return fmt.Sprintf("sha256:%x", sha256.Sum256(text))
}

// planned returns an item with its evidence. It omits nodes where the verdict rests on all of them: one that joins or
// leaves the cluster changes nothing then. Without agents the nodes that are not Ready remain.
func planned(it *judge.Item) view.PlanItem {
	d := view.PlanItem{AllocationRow: view.NewRow(it), Key: it.Key()}
	if d.IsReservation {
		d.Reservation, d.ReservationUID, d.Pool = d.Pool, it.Reservation.UID, ""
	}
	if ev := it.Evidence(); ev != nil {
		d.Evidence = *view.NewEvidence(ev)
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

// digest binds an item to its plan. It is no signature: whoever edits a file can compute it.
func digest(h view.Header, it view.PlanItem) string {
	it.Digest = ""
	text, _ := json.Marshal([]any{h.Cluster.UID, h.ObservedAt, it}) // strings, booleans and times
	return fmt.Sprintf("sha256:%x", sha256.Sum256(text))
}

// File is a plan that was read.
type File struct {
	view.Plan
	items map[judge.ID]view.PlanItem
}

// These limits bound the memory for reading a plan, which anybody may have written: a node of YAML of two bytes takes
// up to 350.
const (
	maxPlan   = 32 << 20 // bytes
	maxValues = 500_000  // lines, commas and brackets, one of which is before each value
)

// ReadFile reads the plan of a file, or of stdin where the name is -. A larger file than a plan may be is not read to
// its end.
func ReadFile(name string) (*File, error) {
	file := os.Stdin
	if name != "-" {
		var err error
		if file, err = os.Open(name); err != nil {
			return nil, err
		}
		defer file.Close()
	}
	text, err := io.ReadAll(io.LimitReader(file, maxPlan+1))
	if err != nil {
		return nil, err
	}
	err = cmp.Or(fileform.CheckEmpty(name, text), fileform.Check(name, text, true))
	if err != nil {
		return nil, err
	}
	p, err := Read(text)
	if err != nil {
		return nil, fmt.Errorf("plan %s: %w", name, err)
	}
	return p, nil
}

// checkSize refuses a text that is too large for a plan, before it is decoded.
func checkSize(text []byte) error {
	n := 0
	for _, c := range text {
		switch c {
		case '\n', '\r', ',', '[', '{', 0x85, 0xa8, 0xa9: // the last three end line breaks of Unicode
			n++
		}
	}
	if n += bytes.Count(text, []byte("- ")); len(text) > maxPlan || n > maxValues {
		return fmt.Errorf("it is too large to be read: a plan may have %d bytes and about %d values; "+
			"make a plan for each pool, with --pool", maxPlan, maxValues)
	}
	return nil
}

var errNoPlan = errors.New("it is no plan: must be a file that 'ip-reconcile plan --output-file' has written")

// Read reads a plan in JSON or YAML. It returns an error for items that were edited, added or repeated.
func Read(text []byte) (*File, error) {
	if err := checkSize(text); err != nil {
		return nil, err
	}
	if err := fileform.CheckOne(text); err != nil { // items that nobody reads would count as released
		return nil, err
	}
	text, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	f := &File{items: map[judge.ID]view.PlanItem{}}
	if !bytes.HasPrefix(text, []byte("{")) {
		what := "a single value"
		if bytes.HasPrefix(text, []byte("[")) {
			what = "an array"
		}
		return nil, fmt.Errorf("%w; it is %s without an apiVersion", errNoPlan, what)
	}
	if err := json.Unmarshal(text, &f.Header); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoPlan, fileform.FieldError(err))
	}
	if h := f.Header; h.APIVersion != view.APIVersion || h.Kind != view.KindPlan {
		return nil, fmt.Errorf("apiVersion %q, kind %q: must be %s and %s", h.APIVersion, h.Kind, view.APIVersion,
			view.KindPlan)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&f.Plan); err != nil {
		return nil, fmt.Errorf("%w (ip-reconcile %s made the plan)", err, f.ToolVersion)
	}
	for i, it := range f.Items {
		id := judge.ID{Object: it.Pool + it.Reservation, UID: it.ReservationUID, Key: it.Key, ContainerID: it.ContainerID,
			PodRef: it.PodRef, IfName: it.IfName}
		name := cmp.Or(it.IP, it.Key) + " in " + id.Object
		if it.Digest != digest(f.Header, it) {
			return nil, fmt.Errorf("items[%d].digest: %s was edited or is of another plan, or another version (%s) made the "+
				"plan; items may only be deleted", i, name, f.ToolVersion)
		}
		if _, isRepeated := f.items[id]; isRepeated {
			return nil, fmt.Errorf("items[%d]: the plan has %s twice", i, name)
		}
		f.items[id] = it
	}
	return f, f.checkPools()
}

// checkPools returns an error for the removal of a pool that was edited, added or repeated.
func (f *File) checkPools() error {
	known := map[string]bool{}
	for i, p := range f.Pools {
		switch {
		case p.Digest != poolDigest(f.Header, p):
			return fmt.Errorf("pools[%d].digest: %s was edited or is of another plan, or another version (%s) made the plan; "+
				"pools may only be deleted", i, p.Pool, f.ToolVersion)
		case known[p.Pool]:
			return fmt.Errorf("pools[%d]: the plan has %s twice", i, p.Pool)
		}
		known[p.Pool] = true
	}
	return nil
}

// Retires are the pools to remove, as the plan has them: by name and UID.
func (f *File) Retires() []*ippool.Pool {
	return lists.Map(f.Pools, func(d view.PlanPool) *ippool.Pool {
		p := &ippool.Pool{UID: d.UID, RangeText: d.Range}
		p.Namespace, p.Name, _ = strings.Cut(d.Pool, "/")
		return p
	})
}

// NoUID is the error where the cluster cannot be identified, and why.
func NoUID(why error) error {
	hint := ""
	if apierrors.IsForbidden(why) {
		hint = "; grant get on that namespace"
	}
	return fmt.Errorf("cannot read the UID of namespace kube-system, by which a plan identifies its cluster: %w%s",
		why, hint)
}

// Check returns an error for a plan of another cluster, for one that is too old, and for one from the future, where the
// clocks of two API servers may differ by a minute.
func (f *File) Check(uid string, now time.Time, maxAge time.Duration) error {
	at := f.ObservedAt.Format(time.RFC3339)
	switch age := now.Sub(f.ObservedAt); {
	case uid == "":
		return NoUID(errors.New("it has none"))
	case uid != f.Cluster.UID:
		return fmt.Errorf("cluster.uid %s: the plan is of another cluster; this cluster has %s", f.Cluster.UID, uid)
	case age > maxAge:
		return fmt.Errorf("observedAt %s: the plan is older than --max-age %s; make a new plan", at, maxAge)
	case age < -time.Minute:
		return fmt.Errorf("observedAt %s: the plan is from the future; it is %s", at, now.UTC().Format(time.RFC3339))
	}
	return nil
}

// Of returns the plan of items that a person reads on a screen.
func Of(items []*judge.Item) *File {
	f := &File{items: map[judge.ID]view.PlanItem{}}
	for _, it := range items {
		f.items[it.ID()] = planned(it)
	}
	return f
}

// find returns by which ID the plan has the item that a judged item is, or in whose place it cannot be parsed.
func (f *File) find(it *judge.Item) (id judge.ID, isPlanned bool) {
	now := it.ID()
	if _, isPlanned = f.items[now]; isPlanned || it.Allocation != nil && it.Allocation.Problem == "" ||
		it.Reservation != nil && it.Reservation.Problem == "" {
		return now, isPlanned
	}
	for id := range f.items {
		if id.Object == now.Object && id.Key == now.Key && id.UID == now.UID {
			return id, true
		}
	}
	return now, false
}

// Has reports whether the plan has an item, whatever has changed since.
func (f *File) Has(it *judge.Item) bool {
	_, isPlanned := f.find(it)
	return isPlanned
}

// Allows reports whether the plan has an item, and all that was read about the item is unchanged.
func (f *File) Allows(it *judge.Item) bool { return f.Has(it) && len(f.Changes(it)) == 0 }

// Changes returns what has changed about an item of the plan since, none where the item may be released. Two changes
// are none: the verdict became proven, and the runtime removed a sandbox that had stopped. The row of the verdict table
// stands for all evidence that is not compared.
func (f *File) Changes(it *judge.Item) (texts []string) {
	id, _ := f.find(it)
	was, now := f.items[id], planned(it)
	compare := func(what, before, after string) {
		if before != after {
			texts = append(texts, fmt.Sprintf("%s %s → %s", what, cmp.Or(before, "none"), cmp.Or(after, "none")))
		}
	}
	if was.Sandbox == judge.Stopped.String() && now.Sandbox == judge.Gone.String() {
		was.Sandbox = now.Sandbox
	}
	compare("problem", was.Evidence.Problem, now.Evidence.Problem)
	compare("sandbox", sandboxOf(was), sandboxOf(now))
	compare("pod", podOf(was), podOf(now))
	compare("claimant", was.Evidence.Claimant, now.Evidence.Claimant)
	if was.Proven && !now.Proven && now.Verdict == judge.Stale {
		compare("verdict", "proven", "unconfirmed")
	}
	compare("verdict", verdictOf(was), verdictOf(now))
	return texts
}

// sandboxOf names the nodes: what a person asserts of those that are not Ready is about these, and no others.
func sandboxOf(it view.PlanItem) string {
	text, s := it.Sandbox, it.Evidence.Sandbox
	if len(s.Nodes) > 0 {
		text += " on " + strings.Join(s.Nodes, ", ")
	}
	if len(s.NotReady) > 0 {
		text += " with " + strings.Join(s.NotReady, ", ") + " not Ready"
	}
	return text
}

func podOf(it view.PlanItem) string {
	p := it.Evidence.Pod
	if p == nil {
		return ""
	}
	return fmt.Sprintf("%s on %s with UID %s", p.Phase, cmp.Or(p.Node, "no node"), p.UID)
}

func verdictOf(it view.PlanItem) string {
	return fmt.Sprintf("%s (%s, rule %s)", it.Verdict, it.Reason, it.Rule)
}

// Complete adds to the result of a run of what the plan allows why it does not allow the other items of the plan. It
// reports whether it is known what became of each: while reservations cannot be read, one that is not there may remain.
func (f *File) Complete(out *reconciler.Result) (isKnown bool) {
	done, rest := judge.IDs(out.Released), maps.Clone(f.items)
	for _, x := range out.Refused {
		done[x.ID()] = true
	}
	for _, it := range slices.Concat(out.Allocations, out.Reservations) {
		id, isPlanned := f.find(it)
		if delete(rest, id); isPlanned && !done[it.ID()] {
			detail := cmp.Or(strings.Join(f.Changes(it), "; "), "changed at the second check; apply the plan again")
			out.Refused = append(out.Refused, plan.Refused{Item: it,
				Gate: plan.Gate{Why: plan.Changed, Detail: detail}})
		}
	}
	unread := 0
	for _, it := range rest {
		if it.Reservation != "" && !out.Observation.Reservations.IsKnown() {
			unread++
		}
	}
	note := func(n int, what string) {
		if n > 0 {
			out.Observation.Warnings = append(out.Observation.Warnings,
				fmt.Sprintf("%d of %d items of the plan are %s", n, len(f.items), what))
		}
	}
	note(len(rest)-unread, "not recorded any more: already released")
	note(unread, "reservations, which cannot be read: it is unknown whether they are released")
	out.Assessment.Findings = nil // a plan has none
	return unread == 0
}
