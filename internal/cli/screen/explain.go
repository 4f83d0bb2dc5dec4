package screen

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
)

// Explain writes an explanation.
func (s *Screen) Explain(d *view.ExplainReport) {
	for _, text := range d.Missing {
		s.Text("", text)
	}
	s.circumstances(d.Circumstances)
	for _, c := range d.Conflicts {
		s.conflict(c)
	}
	for _, c := range d.Carriers {
		isRecorded := func(it view.ExplainedItem) bool { return it.PodRef == c.Name }
		isListed := func(x view.Conflict) bool {
			return slices.ContainsFunc(x.Carriers, func(y view.ConflictCarrier) bool { return y.Pod == c.Name })
		}
		if !slices.ContainsFunc(d.Items, isRecorded) && !slices.ContainsFunc(d.Conflicts, isListed) {
			s.section("carried by "+c.String(), c)
		}
	}
	for _, p := range d.Pods {
		s.section("pod "+p.Name, p)
		if len(d.Items) == 0 {
			s.fact("recorded", "in no pool")
		}
	}
	if d.Subject.Kind == "Pool" && d.Found {
		s.gap()
		s.poolTable(d.PoolUsage...)
	}
	if d.Subject.Kind == "Address" || d.Subject.Kind == "Pod" {
		for _, it := range d.Items {
			s.explainItem(it)
		}
	} else {
		s.rows("STALE", d.ObservedAt, d.Stale())
		s.rows("HELD", d.ObservedAt, d.Held())
	}
	s.explainNodes(d)
	if d.Restore != nil {
		s.section("etcd restore", *d.Restore)
	}
	if d.RecentReleases.Releases > 0 {
		s.section("unconfirmed releases within an hour, of the allocations before them", d.RecentReleases)
	}
	s.Findings("FINDINGS", d.Findings)
	s.Advice(d.Advice)
	s.legend()
}

// conflict writes who carries an address. That a pod has no controller is said.
func (s *Screen) conflict(c view.Conflict) {
	c.Carriers = slices.Clone(c.Carriers)
	for i := range c.Carriers {
		if p := &c.Carriers[i]; p.InAPI {
			p.Owner = cmp.Or(p.Owner, "no controller")
		}
	}
	s.section("conflict at "+c.IP, c)
}

// Words writes the meanings of printed words.
func (s *Screen) Words(all []view.Word) {
	for _, w := range all {
		article := "a"
		if w.Kind[0] == 'a' {
			article = "an"
		}
		s.Line("%s, %s %s", w.Word, article, w.Kind)
		s.Text("    ", w.Means)
		if w.Do != "" {
			s.Text("    What to do: ", w.Do)
		}
	}
}

func (s *Screen) explainItem(it view.ExplainedItem) {
	title := fmt.Sprintf("%s in %s", cmp.Or(it.IP, "-"), it.Pool+it.Reservation)
	if it.SharesVerdictOf != "" {
		s.section(title, struct{}{})
		s.fact("verdict", fmt.Sprintf("%s, as its allocation in %s", it.Verdict, it.SharesVerdictOf))
		return
	}
	var without []string
	if !it.IsStale() { // only a Stale item is released at once, or needs a confirmation
		without = append(without, "proven")
	}
	s.section(title, it, without...)
	if it.Evidence != nil {
		shown := *it.Evidence
		if shown.Pod != nil {
			pod := *shown.Pod
			pod.Ownership = cmp.Or(map[string]string{"ItsPod": "yes", "NotItsPod": "no"}[pod.Ownership], "unknown")
			shown.Pod = &pod
		}
		if !s.Wide {
			shorten(&shown.Sandbox)
		}
		s.facts(shown)
		s.sandboxes = append(s.sandboxes, shown.Sandbox.State)
	}
	if it.IsStale() && len(it.Gates) == 0 {
		s.fact("release", "no gate stands against it: the next pass releases it")
	}
}

// shorten shortens the lists of nodes. Without agents no node has a report.
func shorten(b *view.EvidenceSandbox) {
	short := func(nodes []string) []string {
		if len(nodes) <= nodesShown {
			return nodes
		}
		return []string{view.AtMost(nodes, nodesShown)}
	}
	if b.State == "NoSource" {
		b.WithoutReport = nil
	}
	b.NotReady, b.Nodes, b.WithoutReport = short(b.NotReady), short(b.Nodes), short(b.WithoutReport)
}

// nodesShown is how many nodes a list on the screen has.
const nodesShown = 10

// explainNodes writes the nodes. Of several, the healthy ones are one line.
func (s *Screen) explainNodes(d *view.ExplainReport) {
	var shown []view.ExplainedNode
	var ready []string
	for _, n := range d.Nodes {
		if isHealthy(n) && !s.Wide && len(d.Nodes) > 1 {
			ready = append(ready, n.Name)
		} else {
			shown = append(shown, n)
		}
	}
	for i, n := range shown {
		if d.Found && (i < manyRows || !s.Cut) {
			s.explainNode(n)
		}
	}
	if s.Cut {
		s.more(len(shown)-manyRows, "node")
	}
	if d.Found && len(ready) > 0 {
		s.gap()
		text := Count(len(ready), "node") + " Ready"
		if d.Agents.InUse {
			text += ", with a fresh report"
		}
		s.Text("", text+": "+view.AtMost(ready, nodesShown))
	}
}

// isHealthy reports whether a node is Ready, and its report is fresh if one is expected.
func isHealthy(n view.ExplainedNode) bool {
	isAsExpected := n.Agent == "" && n.Report == nil
	if n.Report != nil {
		isAsExpected = n.Agent == view.AgentFresh && n.Report.Fresh
	}
	return n.InAPI && n.Ready && !n.OutOfService && !n.Awaited && isAsExpected
}

func (s *Screen) explainNode(n view.ExplainedNode) {
	if n.Unknown {
		s.section("node "+n.Name, n, "in the API", "ready", "out of service")
		s.fact("in the API", "unknown: no Nodes could be read")
	} else {
		s.section("node "+n.Name, n)
	}
	if agent := map[string]string{view.AgentFresh: "its report is fresh",
		view.AgentNoFreshReport: "it has no fresh report",
		view.AgentDead:          "none: the node is proven dead, or its Node object is gone",
	}[n.Agent]; agent != "" {
		s.fact("agent", agent)
	}
	if n.Awaited {
		s.fact("etcd restore", "releases wait until this node reports")
	}
}

func (s *Screen) section(title string, of any, without ...string) {
	s.gap()
	s.Text("", title)
	s.facts(of, without...)
}

// facts writes the fields of a struct under their labels, without some, and each element of a list of structs on its
// own.
func (s *Screen) facts(of any, without ...string) {
	each(reflect.ValueOf(of), func(label string, v reflect.Value) {
		if slices.Contains(without, label) {
			return
		}
		if v.Kind() != reflect.Slice || v.Type().Elem().Kind() != reflect.Struct {
			s.fact(label, oneLine(v))
			return
		}
		for i := range v.Len() {
			s.fact(label, oneLine(v.Index(i)))
		}
	})
}

var capital = regexp.MustCompile(`[A-Z]`)

// each calls f for the fields of a struct, except for empty ones and the name, which is in the title. A label is the
// tag "text" of the field, or else the words of its name in JSON.
func each(v reflect.Value, f func(label string, of reflect.Value)) {
	for _, field := range reflect.VisibleFields(v.Type()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		label := cmp.Or(field.Tag.Get("text"), strings.ToLower(capital.ReplaceAllString(name, " $0")))
		of := v.FieldByIndex(field.Index)
		if !field.Anonymous && label != "name" && label != "-" && oneLine(of) != "" {
			f(label, of)
		}
	}
}

func oneLine(v reflect.Value) string {
	if at, is := v.Interface().(time.Time); is {
		return at.Format(time.RFC3339)
	}
	var texts []string
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return ""
		}
		return oneLine(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			texts = append(texts, oneLine(v.Index(i)))
		}
	case reflect.Struct:
		each(v, func(label string, of reflect.Value) { texts = append(texts, label+" "+oneLine(of)) })
	case reflect.Bool:
		return map[bool]string{true: "yes", false: "no"}[v.Bool()]
	default:
		return fmt.Sprint(v.Interface())
	}
	return strings.Join(texts, ", ")
}

// Advice writes what an operator can do.
func (s *Screen) Advice(steps []view.Advice) {
	if len(steps) == 0 {
		return
	}
	s.Line("\nWHAT YOU CAN DO")
	cause := ""
	for _, step := range steps {
		if step.Cause != cause && step.Cause != "" {
			cause = step.Cause
			s.Line("%s:", cause)
		}
		s.step("  ", step)
	}
}

// step writes a step. Its command is on a line of its own that is never broken, and can be copied.
func (s *Screen) step(indent string, step view.Advice) {
	why := step.Why
	if step.OnNode != "" && !strings.Contains(why, step.OnNode) {
		why += " On node " + step.OnNode + ":"
	}
	s.Text(indent, why)
	if step.Command != "" {
		s.Line("%s    %s", indent, step.Command)
	}
}

// Addresses writes the states of addresses.
func (s *Screen) Addresses(d *view.AddressReport) {
	s.List()
	for _, unknown := range d.Unknown {
		s.Text("Note: ", unknown.Why+"; "+unknown.Costs)
	}
	row := func(a view.AddressState) []string {
		return []string{a.IP, a.State, a.Pool, podOrCarrier(a)}
	}
	s.Table([]string{"ADDRESS", "STATE", "POOL", "POD OR NODE"}, lists.Map(d.Addresses, row), nil)
}

// podOrCarrier is who has an address: the pod of the allocation, or what carries it, or the pod of the reservation.
func podOrCarrier(a view.AddressState) string {
	if by := cmp.Or(a.PodRef, strings.Join(a.CarriedBy, ", ")); by != "" || a.ReservedBy == "" {
		return by
	}
	return "reserved for " + a.ReservedBy
}
