package main

import (
	"context"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// environment is the variable that chooses a mutant by its number. Without it none is there.
const environment = "IP_RECONCILE_MUTANT"

// chooser is a file that is added to each package with mutants.
const chooser = `package %s

import "os"

var chosenMutant = os.Getenv(%q)
`

// isChosen is the condition of a mutant in a program that has several.
func isChosen(m *Mutant) string { return fmt.Sprintf("chosenMutant == %q", strconv.Itoa(m.number)) }

// withMutants is the source of a file with some mutants in it. The body of a mutated function begins with the whole
// body of each mutant, which runs instead if its condition is true. A compiler names a mutant by its fault.
func withMutants(file string, source []byte, mutants []*Mutant, condition func(*Mutant) string) ([]byte, error) {
	mutants = slices.SortedStableFunc(slices.Values(mutants), func(a, b *Mutant) int { return a.body - b.body })
	var out []byte
	written := 0
	for _, m := range mutants {
		out = append(out, source[written:m.body]...)
		written = m.body
		body := string(source[m.body:m.begin]) + m.New + string(source[m.end:m.endOfBody])
		call := "return func() " + m.results + " {" + body + "}()"
		if m.results == "" {
			call = "func() {" + body + "}(); return"
		}
		out = fmt.Appendf(out, "if %s {\n//line %s:1\n%s }\n", condition(m), m.Fault, call)
	}
	out = append(out, source[written:]...)
	_, err := parser.ParseFile(token.NewFileSet(), file, out, parser.SkipObjectResolution)
	return out, err
}

// writeOverlay writes files with mutants into a folder, and the overlay for 'go build'. A mutant runs if its condition
// is true.
func writeOverlay(folder string, mutants []*Mutant, condition func(*Mutant) string) (overlay string, err error) {
	replaced, byFile := map[string]string{}, map[string][]*Mutant{}
	write := func(original string, text []byte) error {
		file := filepath.Join(folder, fmt.Sprintf("%d.go", len(replaced)))
		replaced[original] = file
		return os.WriteFile(file, text, 0o600)
	}
	for _, m := range mutants {
		byFile[m.file] = append(byFile[m.file], m)
	}
	for file, of := range byFile {
		text, err := withMutants(file, of[0].source, of, condition)
		if err != nil {
			return "", err
		}
		original, err := filepath.Abs(file)
		if err != nil {
			return "", err
		}
		if err := write(original, text); err != nil {
			return "", err
		}
		added := filepath.Join(filepath.Dir(original), "chosen_mutant.go")
		if replaced[added] == "" {
			if err := write(added, fmt.Appendf(nil, chooser, of[0].pkg, environment)); err != nil {
				return "", err
			}
		}
	}
	names, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(folder, "overlay.json")
	return overlay, os.WriteFile(overlay, names, 0o600)
}

// buildTests builds a program into scratch for each package with tests of some mutants. The mutants are in it.
func (r *runner) buildTests(ctx context.Context, mutants []*Mutant) error {
	overlay, err := writeOverlay(r.scratch, mutants, isChosen)
	if err != nil {
		return err
	}
	packages := map[string]bool{}
	for _, m := range mutants {
		packages["./"+m.testsIn] = true
	}
	// Most of the time is the compiler's: it need not optimise or save memory.
	args := append([]string{"test", "-c", "-vet=off", "-gcflags=github.com/ip-reconcile/ip-reconcile/...=-N -l",
		"-overlay", overlay, "-o", r.scratch + "/"}, slices.Sorted(maps.Keys(packages))...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = r.root, append(os.Environ(), "GOGC=800")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("the tests with the mutants cannot be built: %w\n%s", err, strings.TrimSpace(string(text)))
	}
	return nil
}
