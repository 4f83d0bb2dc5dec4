package screen

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/table"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Explain writes all that is known of a subject, and what can be done.
func (s *Screen) Explain(r *report.Report, d *document.Explanation) {
	for _, text := range d.Missing {
		s.Text("", text)
	}
	s.circumstances(r.Notes(), r.Gates)
	for _, p := range d.Pods {
		s.gap()
		s.Line("pod %s", p.Name)
		s.facts(p)
		if len(d.Items) == 0 {
			s.fact("recorded", "nothing, in any pool")
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
		s.items(table.Warn, "STALE", r, r.Pick(judge.Stale))
		s.items(table.Plain, "HELD", r, r.Pick(judge.Held))
	}
	if len(d.Nodes) > 0 && d.Found {
		s.gap()
		s.Line("nodes")
	}
	for i, n := range d.Nodes {
		if d.Found && (i < manyRows || s.Wide) {
			s.fact(n.Name, oneLine(reflect.ValueOf(n), false))
		}
	}
	if more := len(d.Nodes) - manyRows; more > 0 && !s.Wide {
		s.Line("and %s; -o wide has them all.", Count(more, "more node"))
	}
	if restore := d.Restore; restore != nil {
		s.gap()
		s.Text("Restore: ", fmt.Sprintf("etcd was restored at %s (%s); nodes that are waited for: %s.", restore.Restored, restore.Why,
			table.Dash(s.list(restore.Awaiting, manyRows))))
	}
	if recent := d.RecentReleases; recent.Releases > 0 {
		whose := "by this process, and no more is known"
		if recent.Shared {
			whose = "by all processes that share the Lease of the breaker"
		}
		s.gap()
		s.Text("Breaker: ", fmt.Sprintf("%s within the last hour, of %s there were before (%s).",
			Count(recent.Releases, "unconfirmed release"), Count(recent.Of, "allocation"), whose))
	}
	s.Findings("FINDINGS", r.Findings)
	s.advice(d.Advice)
}

// explainItem writes an allocation or reservation with its evidence, each fact by its name in JSON.
func (s *Screen) explainItem(it document.ExplainedItem) {
	s.gap()
	s.Text("", fmt.Sprintf("%s in %s", table.Dash(it.IP), it.Pool+it.Reservation))
	evidence := it.Evidence
	it.Pool, it.Reservation, it.IP, it.Rule = "", "", "", "" // the rule is in its text
	it.Evidence, it.Advice = nil, nil
	it.Refusal, it.Detail, it.ReleasableAt = "", "", nil // they are among the gates
	s.facts(it)
	if evidence != nil {
		s.facts(*evidence)
	}
	if it.Verdict == judge.Stale && len(it.Gates) == 0 {
		s.fact("release", "nothing stands against it: the next pass releases it")
	}
}

// facts writes the fields of a struct under their names in JSON, and each element of a list of structs on its own. What is
// empty is left out.
func (s *Screen) facts(of any) {
	v := reflect.ValueOf(of)
	for _, f := range reflect.VisibleFields(v.Type()) {
		value := v.FieldByIndex(f.Index)
		name := nameOf(f)
		if f.Anonymous || name == "name" {
			continue
		}
		if value.Kind() == reflect.Slice && value.Type().Elem().Kind() == reflect.Struct {
			for i := range value.Len() {
				s.fact(name, oneLine(value.Index(i), false))
			}
		} else if text := oneLine(value, false); text != "" {
			s.fact(name, text)
		}
	}
}

func nameOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// oneLine is a value as text: a struct as its fields with their names, in parentheses where it is inside of another.
func oneLine(v reflect.Value, inside bool) string {
	if at, is := v.Interface().(*time.Time); is && at != nil {
		return at.Format(time.RFC3339)
	}
	var texts []string
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return ""
		}
		return oneLine(v.Elem(), inside)
	case reflect.Slice:
		for i := range v.Len() {
			texts = append(texts, oneLine(v.Index(i), true))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name := nameOf(v.Type().Field(i))
			if text := oneLine(v.Field(i), true); text != "" && name != "name" {
				texts = append(texts, name+" "+text)
			}
		}
		if inside {
			return "(" + strings.Join(texts, ", ") + ")"
		}
	default:
		return fmt.Sprint(v.Interface())
	}
	return strings.Join(texts, ", ")
}

// advice writes what can be done: each command on a line of its own, which is never broken,
// so that it can be copied.
func (s *Screen) advice(steps []document.Advice) {
	if len(steps) == 0 {
		return
	}
	s.Line("\n%s", s.Paint(table.Plain, "WHAT YOU CAN DO"))
	cause := ""
	for _, step := range steps {
		if step.Cause != cause && step.Cause != "" {
			cause = step.Cause
			s.Line("%s:", cause)
		}
		why := step.Why
		if step.OnNode != "" && !strings.Contains(why, step.OnNode) {
			why += " On node " + step.OnNode + ":"
		}
		s.Text("  ", why)
		if step.Command != "" {
			s.Line("      %s", step.Command)
		}
	}
}
