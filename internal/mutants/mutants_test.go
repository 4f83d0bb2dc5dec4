package main

import (
	"os"
	"path/filepath"
	"testing"
)

const root = "../.."

func TestMutants_FoundOnce(t *testing.T) {
	faults := map[string]bool{}
	for _, m := range all(t) {
		if faults[m.Fault] {
			t.Errorf("two mutants are called %q", m.Fault)
		}
		faults[m.Fault] = true
		if _, err := withMutants(m.file, m.source, []*Mutant{&m}, isChosen); err != nil {
			t.Error(err)
		}
	}
}

func all(t *testing.T) []Mutant {
	t.Helper()
	found, err := mutants(root)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A mutated function runs the body of the mutant that is chosen, and otherwise its own.
func TestWithMutants(t *testing.T) {
	const source = `package x

func (s *S) f() (n int, err error) {
	n, err = g(1)
	return
}

func h() { g(1) }
`
	p := &places{map[string][]place{}, map[string][]string{"TestX": {"."}}}
	file := filepath.Join(t.TempDir(), "x.go")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.add(file, "."); err != nil {
		t.Fatal(err)
	}
	mutants := []*Mutant{{Fault: "nothing is done", Decl: "h", Old: "g(1)"},
		{Fault: "two", Decl: "S.f", Old: "g(1)", New: "g(2)"}, {Fault: "three", Decl: "S.f", Old: "1", New: "3"}}
	for i, m := range mutants {
		m.number, m.Tests = i+1, "TestX"
		if err := p.locate(m); err != nil {
			t.Fatal(err)
		}
	}
	got, err := withMutants(file, []byte(source), mutants, isChosen)
	const want = `package x

func (s *S) f() (n int, err error) {if chosenMutant == "2" {
//line two:1
return func() (n int, err error) {
	n, err = g(2)
	return
}() }
if chosenMutant == "3" {
//line three:1
return func() (n int, err error) {
	n, err = g(3)
	return
}() }

	n, err = g(1)
	return
}

func h() {if chosenMutant == "1" {
//line nothing is done:1
func() {  }(); return }
 g(1) }
`
	if err != nil || string(got) != want {
		t.Errorf("%v:\n%s", err, got)
	}
}

// Output of test2json for a test that failed, and one that ran into the time limit.
func TestMutants_OutcomeFromOutput(t *testing.T) {
	for says, c := range map[string]struct {
		printed  string
		failed   int
		timedOut bool
	}{
		"a test failed": {`{"Action":"run","Test":"TestA"}
{"Action":"fail","Test":"TestA/of_one"}
{"Action":"fail","Test":"TestA"}
{"Action":"pass","Test":"TestB"}
{"Action":"fail"}`, 1, false},
		"it did not end": {`{"Action":"run","Test":"TestA"}
{"Action":"output","Test":"TestA","Output":"panic: test timed out after 1m30s\n"}
{"Action":"fail","Test":"TestA"}
{"Action":"fail"}`, 1, true},
	} {
		r := &testRun{}
		if err := r.read([]byte(c.printed)); err != nil || len(r.failed) != c.failed || r.timedOut != c.timedOut {
			t.Errorf("%s: %+v, %v", says, r, err)
		}
	}
}
