package judge

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// stored is the evidence as it is read from JSON.
func stored(t *testing.T, e *Evidence) *Testimony {
	t.Helper()
	text, err := json.Marshal(e.testimony())
	check(t, err)
	again := &Testimony{}
	if err := json.Unmarshal(text, again); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return again
}

func TestTestimony_IsJudgedAsTheEvidence(t *testing.T) {
	n, checked, failed := 0, 0, 0
	check := func(e *Evidence) {
		checked++
		want := decide(e)
		if got, err := stored(t, e).Judge(); (err != nil || got != want) && failed < 10 {
			failed++
			t.Errorf("judged %v (%v) instead of %v: %+v", got, err, want, e)
		}
	}
	eachEvidence(func(e *Evidence) {
		if n++; n%397 != 0 { // a prime: each combination of two facts is among them
			return
		}
		check(e)
		e.Overdue, e.Unreachable, e.EndedElsewhere = !e.Overdue, !e.Unreachable, !e.EndedElsewhere
		check(e)
		e.WithoutReport = []string{"worker-1", "worker-2", "worker-3", "worker-4"}
		check(e)
		e.Override = decide(e).Reason // perhaps one that a person can override
		check(e)
		e.IPAMClaim = []IPAMClaimState{ClaimExists, ClaimMissing, ClaimNotRead}[n/397%3]
		check(e)
		e.Problem = ippool.UnknownField
		check(e)
	})
	if checked < 15_000 {
		t.Errorf("only %d were checked", checked)
	}
}

// A clause that reads something which a testimony does not keep could give a stored record another verdict.
func TestTestimony_HasAllThatTheTableReads(t *testing.T) {
	kept := map[string]bool{"Pod": true, "Phase": true, "Sandbox": true, "Ownership": true}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Evidence]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		kept[f.Name] = kept[f.Name] || f.IsExported() && !f.Anonymous && name != "-"
		if f.IsExported() && !f.Anonymous && name == "" {
			t.Errorf("%s has no name in JSON", f.Name)
		}
	}
	ofPod := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[PodTestimony]()) {
		ofPod[strings.Replace(f.Name, "NetworkStatus", "Status", 1)] = true
	}
	isReadBy := map[string][]string{
		"table.go": nil, "stale.go": nil, "verdict.go": {"judge", "matches"},
	}
	found := 0
	for name, functions := range isReadBy {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		check(t, err)
		for _, d := range file.Decls {
			f, isFunc := d.(*ast.FuncDecl)
			if isFunc && functions != nil && !slices.Contains(functions, f.Name.Name) {
				continue
			}
			ast.Inspect(d, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				switch x := s.X.(type) {
				case *ast.Ident:
					_, isField := reflect.TypeFor[Evidence]().FieldByName(s.Sel.Name)
					if found++; x.Name == "e" && isField && !kept[s.Sel.Name] {
						t.Errorf("%s reads %s, which no testimony keeps", name, s.Sel.Name)
					}
				case *ast.SelectorExpr:
					if found++; x.Sel.Name == "Pod" && !ofPod[s.Sel.Name] {
						t.Errorf("%s reads %s of the pod, which no testimony keeps", name, s.Sel.Name)
					}
				}
				return true
			})
		}
	}
	if found < 50 {
		t.Errorf("only %d selectors were found", found)
	}
}

func TestTestimony_UnknownWords(t *testing.T) {
	for says, edit := range map[string]func(*Testimony){
		"phase":     func(s *Testimony) { s.Phase = "Gone" },
		"sandbox":   func(s *Testimony) { s.Sandbox = "ready" },
		"ownership": func(s *Testimony) { s.Ownership = "" },
		"status":    func(s *Testimony) { s.Pod.NetworkStatus = "" },
	} {
		s := (&Evidence{Pod: &podstate.Pod{}}).testimony()
		if edit(s); s.Pod == nil {
			t.Fatal("no pod")
		}
		if d, err := s.Judge(); err == nil {
			t.Errorf("an unknown %s is judged %s", says, d.Verdict)
		}
	}
}

// A record must not keep a whole observation alive, and must be short.
func TestTestimony_IsSmall(t *testing.T) {
	e := &Evidence{Pod: &podstate.Pod{}, rival: &rival{}, nodeSet: nodeSet{Sandbox: Gone,
		WithoutReport: make([]string, 5000)}}
	s := e.testimony()
	if s.Evidence.Pod != nil || s.rival != nil || cap(s.WithoutReport) > 2 {
		t.Errorf("it refers to the observation: %+v", s)
	}
	if text, err := json.Marshal(s); err != nil || len(text) > 150 {
		t.Errorf("%d bytes, %v: %s", len(text), err, text)
	}
}
