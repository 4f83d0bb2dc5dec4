package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/util/jsonpath"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/internal/version"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

type printing struct {
	output    string
	noHeaders bool
	path      *jsonpath.JSONPath // of -o jsonpath=...
	hasCSV    bool               // the command prints -o csv, too
}

const jsonPathPrefix = "jsonpath="

func outputs() []string { return []string{"table", "wide", "json", "yaml", "name"} }

func (p *printing) add(f *pflag.FlagSet) {
	f.StringVarP(&p.output, "output", "o", "table", "table, wide, json, yaml, name or jsonpath=TEMPLATE")
	f.BoolVar(&p.noHeaders, "no-headers", false, "print only the rows of tables, and notes on stderr")
}

func (p *printing) check(given *pflag.FlagSet) error {
	template, isPath := strings.CutPrefix(p.output, jsonPathPrefix)
	switch {
	case isPath:
		p.path = jsonpath.New("output").AllowMissingKeys(true)
		if err := p.path.Parse(template); err != nil {
			return fmt.Errorf("--output %q: %w", p.output, err)
		}
	case p.output == "jsonpath":
		return fmt.Errorf("--output jsonpath: needs a template, for example -o jsonpath='{.summary.stale}'")
	case p.output == "csv" && p.hasCSV:
		return nil
	case p.output == "csv":
		return errors.New("--output csv: only explain -f prints it")
	case !slices.Contains(outputs(), p.output):
		return fmt.Errorf("--output %q: must be table, wide, json, yaml, name or jsonpath=TEMPLATE", p.output)
	}
	if !p.isTable() {
		return flags.RefuseWith(given, "output", "which prints no table", "no-headers")
	}
	return nil
}

func (p *printing) isTable() bool { return p.output == "table" || p.output == "wide" }

type answer struct {
	document view.Document
	notes    []string
	names    func() []string
	screen   func(*screen.Screen)
	csv      func() [][]string // nil for a command without -o csv

	isUnresolved bool // something needs attention
}

// print writes an answer in the form that --output asks for. A table with headers begins with the notes. Otherwise
// print writes them to stderr. The error for an answer that is unresolved is errUnresolved.
func (o *options) print(ctx context.Context, a answer) error {
	write, err := o.render(ctx, a)
	if err != nil {
		return err
	}
	o.progress.Stop()
	if !o.isTable() || o.noHeaders {
		for _, note := range a.notes {
			fmt.Fprintln(o.err, "Note:", view.Clean(note))
		}
	}
	if err = write(o.resultWriter()); err == nil && a.isUnresolved {
		return errUnresolved
	}
	return err
}

// resultWriter writes a result, which has colours only if it is text for a person.
func (o *options) resultWriter() io.Writer {
	if o.isTable() && o.outDisplay.coloured != nil {
		return o.outDisplay.coloured
	}
	return o.out
}

// render returns what writes an answer. Nothing is written before all of it can be.
func (o *options) render(ctx context.Context, a answer) (write func(io.Writer) error, err error) {
	switch {
	case o.isTable():
		return writeText(o.renderScreen(a, o.outDisplay)), nil
	case o.output == "name":
		var text bytes.Buffer
		for _, name := range a.names() {
			fmt.Fprintln(&text, view.Clean(name))
		}
		return writeText(text.Bytes()), nil
	case o.output == "csv":
		text, err := o.renderCSV(a.csv())
		return writeText(text), err
	}
	judged := o.cluster
	if o.clusterUID != nil {
		judged.UID, _ = o.clusterUID(ctx) // RBAC may forbid it
	}
	a.document.SetSource(version.Get().Version, judged)
	if o.path != nil {
		text, err := o.query(a.document)
		return writeText(text), err
	}
	return func(w io.Writer) error {
		p := &parts{w: w}
		if err := view.Write(p, o.output, a.document); err != nil {
			return err
		}
		return p.Flush()
	}, nil
}

// parts passes on what is written in parts of some size. Unlike a bufio.Writer it splits no write: half a character
// would be replaced where the text is escaped.
type parts struct {
	w    io.Writer
	text []byte
}

// partSize is the size of a part, which the last write may exceed.
const partSize = 64 << 10

func (p *parts) Write(text []byte) (int, error) {
	p.text = append(p.text, text...)
	if len(p.text) < partSize {
		return len(text), nil
	}
	return len(text), p.Flush()
}

// Flush passes on the rest.
func (p *parts) Flush() error {
	_, err := p.w.Write(p.text)
	p.text = p.text[:0]
	return err
}

func writeText(text []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}
}

// renderCSV writes rows, of which the first has the names of the columns.
func (p *printing) renderCSV(rows [][]string) ([]byte, error) {
	if p.noHeaders {
		rows = rows[1:]
	}
	var text bytes.Buffer
	w := csv.NewWriter(&text)
	for _, row := range rows {
		if err := w.Write(lists.Map(row, view.Clean)); err != nil {
			return nil, err
		}
	}
	w.Flush()
	return text.Bytes(), w.Error()
}

// renderScreen renders an answer for a display. Long lists are cut on a terminal, unless a flag asks for all or for a
// form of the output.
func (o *options) renderScreen(a answer, d display) []byte {
	s := &screen.Screen{Wide: o.output == "wide", NoHeaders: o.noHeaders, All: o.all, ConfirmAfter: o.ConfirmAfter,
		Width: d.columns, Cut: d.isTerminal && !o.all && !o.given.Changed("output")}
	if o.ByHand {
		s.ConfirmAfter = facts.MinAbsenceWhilePending
	}
	a.document.SetSource(version.Get().Version, o.cluster)
	if h := a.document.Head(); h.Kind != view.KindWords && !o.noHeaders { // words are of no cluster
		s.Head(h)
	}
	a.screen(s)
	return []byte(s.String())
}

func (p *printing) query(d view.Document) ([]byte, error) {
	text, err := json.Marshal(view.Full(d))
	if err != nil {
		return nil, err
	}
	var plain any
	if err := json.Unmarshal(text, &plain); err != nil {
		return nil, err
	}
	var found bytes.Buffer
	if err := p.path.Execute(&found, plain); err != nil {
		return nil, fmt.Errorf("--output %s: %w", p.output, err)
	}
	return found.Bytes(), nil
}
