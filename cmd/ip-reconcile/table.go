package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// width is what a line of a table fits in.
const width = 120

// manyRows is from how many rows on a section leaves out the sentences.
const manyRows = 40

// print writes an outcome in the form asked for. The notes that a table has at
// its head go to stderr beside a document, whose fields are a contract.
func (o *options) print(std streams, notes []string, document func() any, asTable func(*table)) error {
	var text []byte
	switch o.output {
	case "json":
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(document()); err != nil {
			return err
		}
		text = buf.Bytes()
	case "yaml":
		var err error
		if text, err = yaml.Marshal(document()); err != nil {
			return err
		}
	default:
		t := &table{}
		asTable(t)
		text = []byte(t.String())
	}
	if o.output != "table" {
		for _, note := range notes {
			fmt.Fprintln(std.err, "Note:", note)
		}
	}
	_, err := std.out.Write(text)
	return err
}

// table collects what is shown to a person.
type table struct{ strings.Builder }

func (t *table) line(format string, args ...any) { fmt.Fprintf(t, format+"\n", args...) }

func (t *table) judgement(j *judge.Judgement, all bool) {
	t.summary(j)
	t.items("STALE", pick(j, judge.Stale), nil)
	t.rest(j, all)
}

func (t *table) result(out *reconciler.Result, all bool) {
	t.summary(out.Judgement)
	allocations, reservations := 0, 0
	var released []*judge.Item
	for _, it := range out.Released {
		if it.Allocation != nil {
			allocations++
		} else {
			reservations++
		}
		if it.Allocation != nil || len(it.Related()) == 0 {
			released = append(released, it)
		}
	}
	t.line("Released %s and %s; %s left.", count(allocations, "allocation"), count(reservations, "reservation"), count(len(out.Refused), "stale one"))
	slices.SortStableFunc(released, func(a, b *judge.Item) int {
		return cmp.Or(cmp.Compare(a.Object(), b.Object()), a.Address().Compare(b.Address()))
	})
	t.items("RELEASED", released, map[*judge.Item]string{})
	var left []*judge.Item
	why := map[*judge.Item]string{}
	for _, x := range out.Refused {
		left = append(left, x.Item)
		why[x.Item] = fmt.Sprintf("%s: %s", x.Why, x.Detail)
	}
	t.items("NOT RELEASED", left, why)
	t.repaired(out)
	t.rest(out.Judgement, all)
}

func (t *table) repaired(out *reconciler.Result) {
	if len(out.Repaired)+len(out.Unrepaired) == 0 {
		return
	}
	t.line("\nREPAIRED (%d)", len(out.Repaired))
	for _, f := range out.Repaired {
		t.line("%s of %s in %s", f.Kind, f.IP, f.Pool)
	}
	why := map[string]int{}
	for _, u := range out.Unrepaired {
		if u.Why == reconciler.Breaker { // the same for many
			why[u.Detail]++
		} else {
			t.line("not repaired: %s", u)
		}
	}
	t.reasons(why)
}

// reasons writes each reason once, with how many it is about.
func (t *table) reasons(why map[string]int) {
	for _, text := range slices.Sorted(maps.Keys(why)) {
		t.wrapped(fmt.Sprintf("%d not repaired: ", why[text]), text)
	}
}

func (t *table) rest(j *judge.Judgement, all bool) {
	t.findings(j.Findings)
	t.items("HELD", pick(j, judge.Held), nil)
	if all {
		t.items("IN USE", pick(j, judge.InUse), nil)
	}
}

func (t *table) summary(j *judge.Judgement) {
	s := j.Summary()
	t.line("%s, %s: %d in use, %d held, %d stale; %s, %s.", count(s.Pools, "pool"), count(s.Allocations, "allocation"),
		s.InUse, s.Held, s.Stale, count(s.Reservations, "reservation"), count(s.Findings, "finding"))
	t.notes(j)
	if j.Observation.Paused {
		t.line("Paused: nothing is released.")
	}
}

func (t *table) notes(j *judge.Judgement) {
	for _, text := range j.Notes() {
		t.wrapped("Note: ", text)
	}
}

func count(n int, what string) string {
	if n == 1 {
		return fmt.Sprintf("1 %s", what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// pick are the items of a verdict; a reservation that shares its allocation's
// stands in its allocation's row.
func pick(j *judge.Judgement, v judge.Verdict) []*judge.Item {
	var found []*judge.Item
	for _, it := range slices.Concat(j.Allocations, j.Reservations) {
		if it.Verdict == v && (it.Allocation != nil || len(it.Related()) == 0) {
			found = append(found, it)
		}
	}
	return found
}

// items lists a section. why, where given, replaces the verdict's sentence: the
// section is then about what was done and not about what is to come.
func (t *table) items(title string, items []*judge.Item, why map[*judge.Item]string) {
	if len(items) == 0 {
		return
	}
	t.line("\n%s (%d)", title, len(items))
	var rows strings.Builder
	w := tabwriter.NewWriter(&rows, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ADDRESS\tPOD\tREASON\tSANDBOX\tNODE\tPOOL OR RESERVATION")
	for _, it := range items {
		sandbox, reason := "", it.Reason.String()
		if it.Evidence() != nil {
			sandbox = it.Evidence().Sandbox.String()
		}
		if why == nil && it.Verdict == judge.Stale && !it.Proven {
			reason += "?"
		}
		place := it.Object()
		if it.Reservation != nil {
			place += " (reservation)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", dash(it.Text()), dash(shorten(it.PodRef(), 40)), reason, dash(sandbox), dash(shorten(it.Node(), 24)), place)
	}
	w.Flush()
	lines := strings.Split(strings.TrimRight(rows.String(), "\n"), "\n")
	t.line("%s", shorten(strings.TrimRight(lines[0], " "), width))
	for i, it := range items {
		t.line("%s", shorten(strings.TrimRight(lines[i+1], " "), width))
		if len(items) <= manyRows {
			t.wrapped("    ", cmp.Or(why[it], it.Message()))
		}
	}
	if len(items) > manyRows {
		t.line("The sentence behind each is in 'ip-reconcile explain ADDRESS' and in -o json.")
	}
	if why == nil && slices.ContainsFunc(items, func(it *judge.Item) bool { return it.Verdict == judge.Stale && !it.Proven }) {
		t.line("? not confirmed yet: freed when it has been judged so in every pass for --confirm-after.")
	}
}

func (t *table) findings(found []judge.Finding) {
	if len(found) == 0 {
		return
	}
	t.line("\nFINDINGS (%d)", len(found))
	for _, f := range found {
		t.wrapped(fmt.Sprintf("%-18s  ", f.Kind), f.Message)
	}
}

// wrapped writes a text that is broken between words, its lines under each other.
func (t *table) wrapped(prefix, text string) {
	line := prefix
	for _, word := range strings.Fields(text) {
		if len(line)+len(word) > width && strings.TrimSpace(line) != "" {
			t.line("%s", strings.TrimRight(line, " "))
			line = strings.Repeat(" ", len(prefix))
		}
		line += word + " "
	}
	t.line("%s", strings.TrimRight(line, " "))
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// shorten cuts a text that is too long, in the middle, where names differ least.
func shorten(text string, to int) string {
	r := []rune(text)
	if len(r) <= to {
		return text
	}
	head := (to - 1) / 2
	return string(r[:head]) + "…" + string(r[len(r)-(to-1-head):])
}
