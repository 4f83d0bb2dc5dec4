package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Area is a part of the product, and what is broken there on purpose.
type Area struct {
	Title   string
	Mutants []Mutant
}

// Mutant is one fault, and the tests that must fail where the product has it.
type Mutant struct {
	// Fault says in words what the product does wrong with it.
	Fault string
	// File is its path in the module. Old occurs there exactly once, and New takes its place.
	File, Old, New string
	// Tests are names of tests, separated by "|", of which one fails at least.
	Tests string
	// In is the folder of the package that has these tests; that of File if empty.
	In string
	// Hangs: the fault keeps a test from ending, and so it is caught by the time limit.
	Hangs bool
}

func (m *Mutant) testFolder() string {
	if m.In != "" {
		return m.In
	}
	return path.Dir(m.File)
}

func (m *Mutant) tests() []string { return strings.Split(m.Tests, "|") }

// mutated is the text of the file with the fault. The error says that the list is out of
// date, or has a mistake.
func (m *Mutant) mutated(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return nil, fmt.Errorf("mutant %q: %w: the list in internal/mutants is out of date", m.Fault, err)
	}
	switch n := strings.Count(string(text), m.Old); {
	case m.Old == "" || m.Old == m.New:
		return nil, fmt.Errorf("mutant %q changes nothing in %s", m.Fault, m.File)
	case n != 1:
		return nil, fmt.Errorf("mutant %q: %s has %d times, and not once: %s\nthe list in internal/mutants is out of date", m.Fault, m.File, n, m.Old)
	}
	return []byte(strings.Replace(string(text), m.Old, m.New, 1)), nil
}

// selected are the areas with those mutants alone of which the title, the fault, the file or
// the tests match.
func selected(all []Area, by *regexp.Regexp) []Area {
	var some []Area
	for _, a := range all {
		a.Mutants = slices.DeleteFunc(slices.Clone(a.Mutants), func(m Mutant) bool {
			return !slices.ContainsFunc([]string{a.Title, m.Fault, m.File, m.Tests}, by.MatchString)
		})
		if len(a.Mutants) > 0 {
			some = append(some, a)
		}
	}
	return some
}
