package main

import (
	"fmt"
	"path"
	"strings"
)

// table is docs/mutants.md.
func table(all []Area) string {
	n := 0
	for _, a := range all {
		n += len(a.Mutants)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `# Mutants

The product is broken on purpose in %d ways, one at a time, and each time a unit test fails. `+"`make mutants`"+` breaks it and runs
the tests; the list is in `+"`internal/mutants`"+`, and this page is generated from it.

A fault that no test noticed would be a missing test, or code without a purpose.
`, n)
	for _, a := range all {
		fmt.Fprintf(&b, "\n## %s\n\n| broken on purpose | in | caught by |\n|---|---|---|\n", a.Title)
		for _, m := range a.Mutants {
			fmt.Fprintf(&b, "| %s | [%s](../%s) | %s |\n", m.Fault, m.File, m.File, m.cell())
		}
	}
	return b.String()
}

// cell names the tests, and their package where it is another than the file's.
func (m *Mutant) cell() string {
	text := strings.Join(m.tests(), ", ")
	if m.testFolder() != path.Dir(m.File) {
		text += " (" + m.testFolder() + ")"
	}
	if m.Hangs {
		text += ", which does not end"
	}
	return text
}
