package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
)

const judgeFolder = "reconciler/judge"

// rowTests are the tests that judge something by each row.
const rowTests = "TestVerdictTable|TestWhatCannotBeReadIsHeld|TestARecentReservation|" +
	"TestAReservationThatIsBeingDeletedIsHeld|TestAnInterfaceThatWasDetachedIsALeak|TestFinishedWithoutAFreshReport|" +
	"TestUnreachableNodeTimeout|TestTrustNetworkStatus|TestTable_LastRowHolds|" +
	"TestASandboxThatWasNotReadMayCarryTheAddressesOfItsPod|TestAnotherPodCarriesTheAddress|" +
	"TestTheRowNamesTheCauseWhereSeveralHoldForOneReason"

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
					m.In, m.Decl = judgeFolder, declaredName(function)
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
	tests, testsIn := rowTests, ""
	if id == "gone-long-alone" { // it needs a day of passes
		tests, testsIn = "TestPlan_Confirmation", "reconciler"
	}
	return Mutant{
		Tests: tests, TestsIn: testsIn,
		Fault: fmt.Sprintf("The row %s is a proven release", id),
		Old:   whole, New: whole[:begin] + "verdict: Stale, proven: true" + whole[end:],
	}, true
}
