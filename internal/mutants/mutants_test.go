package main

import (
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
		if _, err := m.mutated(); err != nil {
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

// Output of 'go test -json' for a test that failed, one that did not compile and one that ran into the time limit.
func TestMutants_OutcomeFromOutput(t *testing.T) {
	for says, c := range map[string]struct {
		printed  string
		failed   int
		built    bool
		timedOut bool
	}{
		"a test failed": {`{"Action":"run","Test":"TestA"}
{"Action":"fail","Test":"TestA/of_one"}
{"Action":"fail","Test":"TestA"}
{"Action":"pass","Test":"TestB"}
{"Action":"fail"}`, 1, true, false},
		"it does not compile": {`{"ImportPath":"x","Action":"build-output","Output":"a.go:1:1: undefined"}
{"ImportPath":"x","Action":"build-fail"}
{"Action":"fail","FailedBuild":"x"}`, 0, false, false},
		"it did not end": {`{"Action":"run","Test":"TestA"}
{"Action":"output","Test":"TestA","Output":"panic: test timed out after 1m30s\n"}
{"Action":"fail","Test":"TestA"}
{"Action":"fail"}`, 1, true, true},
	} {
		r := &testRun{built: true}
		if err := r.read([]byte(c.printed)); err != nil || len(r.failed) != c.failed || r.built != c.built ||
			r.timedOut != c.timedOut {
			t.Errorf("%s: %+v, %v", says, r, err)
		}
	}
}
