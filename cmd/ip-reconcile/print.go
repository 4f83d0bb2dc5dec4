package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/util/jsonpath"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
)

// printing are the flags of how an answer is printed.
type printing struct {
	output    string
	noHeaders bool
	path      *jsonpath.JSONPath // of -o jsonpath=...
}

const jsonPathPrefix = "jsonpath="

// outputs are the other forms that --output takes.
func outputs() []string { return []string{"table", "wide", "json", "yaml", "name"} }

func (p *printing) add(f *pflag.FlagSet) {
	f.StringVarP(&p.output, "output", "o", "table", "table, wide, json, yaml, name or jsonpath=TEMPLATE")
	f.BoolVar(&p.noHeaders, "no-headers", false, "leave out the names of the columns")
}

// check reads the flags, before anything is done.
func (p *printing) check() error {
	template, isPath := strings.CutPrefix(p.output, jsonPathPrefix)
	switch {
	case isPath:
		p.path = jsonpath.New("output").AllowMissingKeys(true)
		if err := p.path.Parse(template); err != nil {
			return fmt.Errorf("--output %q: %w", p.output, err)
		}
	case p.output == "jsonpath":
		return fmt.Errorf("--output jsonpath: needs a template, as in -o jsonpath='{.summary.stale}'")
	case !slices.Contains(outputs(), p.output):
		return fmt.Errorf("--output %q: must be table, wide, json, yaml, name or jsonpath=TEMPLATE", p.output)
	}
	return nil
}

// machine reports whether what is printed is for a program.
func (p *printing) machine() bool { return p.output != "table" && p.output != "wide" }

// answer is what a command has to tell, in the forms in which it can be asked for.
type answer struct {
	notes    []string
	document func() any
	names    func() []string
	screen   func(*screen.Screen)
}

// print writes an answer in the form asked for. The notes that a table has at its head are
// for a person, too, who pipes a document into another program: they go to stderr.
func (p *printing) print(std streams, a answer) error {
	text, err := p.render(std, a)
	if err != nil {
		return err
	}
	if p.machine() {
		for _, note := range a.notes {
			fmt.Fprintln(std.err, "Note:", note)
		}
	}
	_, err = std.out.Write(text)
	return err
}

func (p *printing) render(std streams, a answer) ([]byte, error) {
	switch {
	case p.path != nil:
		return p.query(a.document())
	case p.output == "json", p.output == "yaml":
		return document.Encode(p.output, a.document())
	case p.output == "name":
		return []byte(strings.Join(append(a.names(), ""), "\n")), nil
	}
	s := &screen.Screen{Wide: p.output == "wide", NoHeaders: p.noHeaders}
	a.screen(s)
	return []byte(s.String()), nil
}

// query is what a template picks of a document.
func (p *printing) query(d any) ([]byte, error) {
	text, err := json.Marshal(d)
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
