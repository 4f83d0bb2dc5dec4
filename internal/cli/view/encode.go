package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"regexp"

	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Full returns a document with the lists that JSON has and text has not.
func Full(document any) any {
	switch d := document.(type) {
	case *CheckReport:
		return d.Full()
	case *RunReport:
		return d.Full()
	case *ExplainReport:
		return d.Full()
	case *ExplainReports:
		return d.Full()
	}
	return document
}

// form is how documents are encoded.
type form struct {
	write func(io.Writer, any) error
	row   func(io.Writer, any) error
	// name is the start of a line of a list of a document, where %s is its name. begin, next and end are before its first
	// row, before the others, and after the last.
	name, begin, next, end string
}

func formNamed(name string) form {
	if name == "yaml" {
		inList := func(w io.Writer, row any) error { return writeYAML(w, []any{row}) }
		return form{writeYAML, inList, "%s:", "\n", "\n", ""}
	}
	return form{writeJSON(""), writeJSON("    "), `  "%s":`, " [\n    ", ",\n    ", "\n  ]"}
}

// Write writes a document as "yaml", or else as JSON. Its long lists are written row by row, so that they are nowhere
// in memory as a whole. An error may follow what was written.
func Write(w io.Writer, as string, document any) error {
	f := formNamed(as)
	d, isLong := document.(interface{ longLists() []longList })
	if !isLong {
		return f.write(w, Full(document))
	}
	var text bytes.Buffer
	if err := f.write(&text, document); err != nil {
		return err
	}
	rest := text.Bytes()
	for _, l := range d.longLists() {
		name := fmt.Sprintf(f.name, l.name)
		at := regexp.MustCompile("(?m)^" + regexp.QuoteMeta(name+" []")).FindIndex(rest) // lines in strings are indented
		if at == nil {
			return fmt.Errorf("the document has no empty list %s", l.name)
		}
		if _, err := fmt.Fprintf(w, "%s%s", rest[:at[0]], name); err != nil {
			return err
		}
		if err := f.writeRows(w, l.rows); err != nil {
			return err
		}
		rest = rest[at[1]:]
	}
	_, err := w.Write(rest)
	return err
}

// writeRows writes the rows of a list after its name.
func (f form) writeRows(w io.Writer, rows iter.Seq[any]) error {
	var text bytes.Buffer
	before, after := f.begin, " []"
	for row := range rows {
		text.Reset()
		text.WriteString(before)
		if err := f.row(&text, row); err != nil {
			return err
		}
		if _, err := w.Write(bytes.TrimSuffix(text.Bytes(), []byte("\n"))); err != nil {
			return err
		}
		before, after = f.next, f.end
	}
	_, err := io.WriteString(w, after)
	return err
}

func writeJSON(prefix string) func(io.Writer, any) error {
	return func(w io.Writer, value any) error {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		enc.SetIndent(prefix, "  ")
		return enc.Encode(value)
	}
}

func writeYAML(w io.Writer, value any) error {
	text, err := yaml.Marshal(value)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// longList is a list of a document that Full has, and that is empty before.
type longList struct {
	name string
	rows iter.Seq[any]
}

// longLists are in the order of their names, and in that of the fields.
func (d *CheckReport) longLists() []longList {
	return []longList{
		{"allocations", rowsOf(d.picked.Allocations, d.picked.Row)},
		{"reservations", rowsOf(d.picked.Reservations, d.picked.reservation)},
	}
}

func rowsOf[T any](items []*judge.Item, row func(*judge.Item) T) iter.Seq[any] {
	return func(yield func(any) bool) {
		for _, it := range items {
			if !yield(row(it)) {
				return
			}
		}
	}
}
