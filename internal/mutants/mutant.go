package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Mutant is one fault, and the tests of which one must fail with it.
type Mutant struct {
	// Fault describes what the product does wrong.
	Fault string
	// Decl is a function, or a method as "Type.method".
	Decl string
	// Old is code that occurs in the body of Decl exactly once, however it is formatted. New replaces it.
	Old, New string
	// Tests are names of tests, separated by "|", of which at least one fails.
	Tests string

	number  int    // in the whole list, which chooses it
	place          // of Old, which locate finds
	testsIn string // the folder of the package that has these tests, which locate finds
}

func (m *Mutant) tests() []string { return strings.Split(m.Tests, "|") }

func declaredName(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return d.Name.Name
	}
	receiver := d.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	if generic, ok := receiver.(*ast.IndexExpr); ok {
		receiver = generic.X
	}
	if named, ok := receiver.(*ast.Ident); ok {
		return named.Name + "." + d.Name.Name
	}
	return ""
}

// once finds the position of part's tokens in text; they must occur exactly once.
func once(text, part string) (begin, end int, err error) {
	all, want := tokens(text), tokens(part)
	found := 0
	for i := 0; i+len(want) <= len(all); i++ {
		same := len(want) > 0
		for k := range want {
			same = same && all[i+k].text == want[k].text
		}
		if same {
			found++
			begin, end = all[i].at, all[i+len(want)-1].at+len(all[i+len(want)-1].text)
		}
	}
	switch found {
	case 0:
		return 0, 0, errors.New("it does not have: " + part)
	case 1:
		return begin, end, nil
	}
	return 0, 0, fmt.Errorf("it has %d times, and not once: %s", found, part)
}

type word struct {
	text string
	at   int
}

// tokens are the tokens of Go source, without comments and automatic semicolons.
func tokens(text string) (all []word) {
	set := token.NewFileSet()
	file := set.AddFile("", set.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, []byte(text), nil, 0)
	for {
		pos, tok, literal := s.Scan()
		switch {
		case tok == token.EOF:
			return all
		case tok == token.SEMICOLON && literal == "\n":
		case literal != "" && tok != token.SEMICOLON:
			all = append(all, word{literal, file.Offset(pos)})
		default:
			all = append(all, word{tok.String(), file.Offset(pos)})
		}
	}
}

const judgeFolder = "reconciler/judge"

// rowTests are the tests that judge something by each row.
const rowTests = "TestVerdictTable|TestWhatCannotBeReadIsHeld|TestARecentReservation|" +
	"TestAReservationThatIsBeingDeletedIsHeld|TestAnInterfaceThatWasUnpluggedIsHeld|TestFinishedWithoutAFreshReport|" +
	"TestUnreachableNodeTimeout|TestTrustNetworkStatus|TestTable_LastRowHolds|" +
	"TestASandboxThatWasNotReadMayCarryTheAddressesOfItsPod|TestAnotherPodCarriesTheAddress|" +
	"TestTheRowNamesTheCauseWhereSeveralHoldForOneReason|TestVerdict_PendingWithItsNetwork|TestNodesUnknown"

// rowMutants are mutants of the verdict table, one for each row whose verdict is not a proven release: it releases at
// once what the row holds, keeps in use, or confirms first.
func rowMutants(root string) ([]Mutant, error) {
	file := filepath.Join(root, judgeFolder, "table.go")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []Mutant
	ast.Inspect(parsed, func(n ast.Node) bool {
		function, ok := n.(*ast.FuncDecl)
		if !ok {
			return true
		}
		ast.Inspect(function, func(n ast.Node) bool {
			if row, ok := n.(*ast.CompositeLit); ok {
				source := func(e ast.Expr) string {
					return string(text[set.Position(e.Pos()).Offset:set.Position(e.End()).Offset])
				}
				if m, ok := rowMutant(row, source); ok {
					m.Decl = declaredName(function)
					found = append(found, m)
				}
			}
			return true
		})
		return false
	})
	if len(found) == 0 {
		return nil, errors.New("no row of the verdict table was found")
	}
	return found, nil
}

// rowMutant is the mutant of a row; false for other expressions and for a proven row.
func rowMutant(row *ast.CompositeLit, source func(ast.Expr) string) (m Mutant, ok bool) {
	id, verdict := "", ""
	for _, e := range row.Elts {
		field, isField := e.(*ast.KeyValueExpr)
		if !isField {
			return m, false
		}
		switch source(field.Key) {
		case "id":
			id, _ = strconv.Unquote(source(field.Value))
		case "verdict":
			verdict = source(field)
		case "proven":
			return m, false
		}
	}
	if id == "" || verdict == "" {
		return m, false
	}
	whole := source(row)
	begin, end, err := once(whole, verdict)
	if err != nil {
		return m, false
	}
	tests := rowTests
	if id == "gone-long-alone" { // it needs a day of passes
		tests = "TestPlan_Confirmation"
	}
	return Mutant{
		Tests: tests,
		Fault: fmt.Sprintf("The row %s is a proven release", id),
		Old:   whole, New: whole[:begin] + "verdict: Stale, proven: true" + whole[end:],
	}, true
}
