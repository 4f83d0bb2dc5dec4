//go:build !slow && !cluster

package e2e

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// docs/reference/supported-versions.md marks commands of docs/install that no test runs, with the reason: "No test runs
// `docker push`: REASON." A mark is for all commands that begin so, and may match some that a test runs.
var (
	mark = regexp.MustCompile("No test runs ((?:`[^`]+`(?:, | and )?)+): ")
	// onNode matches commands for a node.
	onNode = regexp.MustCompile("`((?:systemctl|k3s|/var/lib/[a-z0-9/]+/crictl) [^`]+)`")
	quote  = regexp.MustCompile("`([^`]+)`")
)

// marksOf are the beginnings of the commands that a page marks.
func marksOf(text string) (all []string) {
	for _, m := range mark.FindAllStringSubmatch(strings.ReplaceAll(text, "\n", " "), -1) {
		for _, q := range quote.FindAllStringSubmatch(m[1], -1) {
			all = append(all, q[1])
		}
	}
	return all
}

// checkMarks checks that each command of docs/install that no test runs has a mark, and each mark such a command.
func checkMarks(t *testing.T, pages map[string]string, run map[string]bool) {
	t.Helper()
	const marked = "docs/reference/supported-versions.md"
	marks, needed := marksOf(pages[marked]), map[string]bool{}
	for page, text := range pages {
		if own := marksOf(text); len(own) > 0 && page != marked {
			t.Errorf("%s marks %q: marks are in %s", page, own, marked)
		}
		if !strings.HasPrefix(page, "docs/install/") {
			continue
		}
		commands := commandsOf(page, text)
		for _, found := range onNode.FindAllStringSubmatch(text, -1) {
			commands = append(commands, pageCommand{page, found[1]})
		}
		for _, c := range commands {
			if assignment.MatchString(c.text) || run[c.text] {
				continue
			}
			at := slices.IndexFunc(marks, func(m string) bool { return strings.HasPrefix(c.text, m) })
			if at < 0 {
				t.Errorf("%s: no test runs %q: mark it in %s with the reason", c.place, c.text, marked)
				continue
			}
			needed[marks[at]] = true
		}
	}
	for _, m := range marks {
		if !needed[m] {
			t.Errorf("%s marks %q, and a test runs each such command", marked, m)
		}
	}
}

// A typist is a call in a test that types commands of a page: those of a section that have all parts, or the first one.
type typist struct {
	page    string
	section *regexp.Regexp
	parts   []*regexp.Regexp
	isFirst bool
}

// takers are the functions that take commands from a page, with what their further arguments are.
var takers = map[string]func(page string, arguments []string) typist{
	"commandOf": func(page string, arguments []string) typist {
		return typist{page: page, section: regexp.MustCompile(""), isFirst: true,
			parts: []*regexp.Regexp{regexp.MustCompile("^" + arguments[0] + " ")}}
	},
	"follow":        func(page string, arguments []string) typist { return under(page, arguments[:1]) },
	"commandsUnder": under,
	"types": func(page string, arguments []string) typist {
		return under(regexp.QuoteMeta("docs/install/")+page+regexp.QuoteMeta(".md"), arguments)
	},
}

// under takes the commands of a section that have all parts.
func under(page string, arguments []string) typist {
	d := typist{page: page, section: regexp.MustCompile("^" + arguments[0] + "$")}
	for _, a := range arguments[1:] {
		d.parts = append(d.parts, regexp.MustCompile(a))
	}
	return d
}

// typists are the calls in all tests, of whatever tags.
func typists(t *testing.T) (all []typist) {
	t.Helper()
	for _, file := range try(filepath.Glob("*_test.go")).must(t) {
		parsed := try(parser.ParseFile(token.NewFileSet(), file, nil, 0)).must(t)
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			known, firsts := textsOf(f), map[ast.Node]bool{}
			ast.Inspect(f, func(n ast.Node) bool {
				if of, ok := n.(*ast.IndexExpr); ok {
					firsts[of.X] = true
				}
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) < 3 {
					return true
				}
				taker := takers[nameOf(call.Fun)]
				if taker == nil {
					return true
				}
				for _, page := range patterns(call.Args[1], known) {
					each := [][]string{nil}
					for i, a := range call.Args[2:] {
						var next [][]string
						found := patterns(a, known)
						if i > 0 && len(found) == 0 {
							found = []string{""} // any part
						}
						for _, p := range found {
							for _, before := range each {
								next = append(next, append(slices.Clone(before), p))
							}
						}
						each = next
					}
					for _, arguments := range each {
						d := taker(page, arguments)
						d.isFirst = d.isFirst || firsts[call]
						all = append(all, d)
					}
				}
				return true
			})
		}
	}
	return all
}

func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// textsOf are the strings that a function's variables may have: those that are assigned, and those of a literal that a
// loop ranges over.
func textsOf(f *ast.FuncDecl) map[string][]string {
	known := map[string][]string{}
	add := func(name ast.Expr, value ast.Expr) {
		if text, ok := literal(value); ok {
			known[nameOf(name)] = append(known[nameOf(name)], text)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i := range n.Lhs {
				if len(n.Lhs) == len(n.Rhs) {
					add(n.Lhs[i], n.Rhs[i])
				}
			}
		case *ast.ValueSpec:
			for i := range n.Values {
				add(n.Names[i], n.Values[i])
			}
		case *ast.RangeStmt:
			values, ok := n.X.(*ast.CompositeLit)
			if !ok {
				break
			}
			for _, e := range values.Elts {
				if pair, ok := e.(*ast.KeyValueExpr); ok {
					add(n.Key, pair.Key)
					e = pair.Value
				}
				if n.Value != nil {
					add(n.Value, e)
				}
			}
		}
		return true
	})
	return known
}

func literal(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(l.Value)
	return text, err == nil
}

// patterns are the regular expressions of what an expression may be; nothing if a part of it is not known.
func patterns(e ast.Expr, known map[string][]string) (all []string) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, ok := literal(e); ok {
			all = append(all, regexp.QuoteMeta(text))
		}
	case *ast.Ident:
		for _, text := range known[e.Name] {
			all = append(all, regexp.QuoteMeta(text))
		}
	case *ast.BinaryExpr:
		for _, x := range patterns(e.X, known) {
			for _, y := range patterns(e.Y, known) {
				all = append(all, x+y)
			}
		}
	}
	return all
}

// isTyped reports whether a test types a command of a page, which follows others.
func isTyped(calls []typist, page string, section []string, before []pageCommand, c pageCommand) bool {
	return slices.ContainsFunc(calls, func(d typist) bool {
		return d.page == regexp.QuoteMeta(page) && slices.ContainsFunc(section, d.section.MatchString) && d.has(c) &&
			!(d.isFirst && slices.ContainsFunc(before, d.has))
	})
}

// has reports whether a command has all parts.
func (d typist) has(c pageCommand) bool {
	return !slices.ContainsFunc(d.parts, func(part *regexp.Regexp) bool { return !part.MatchString(c.text) })
}

// sectionOf are the names of the section that a command is in. A page's head has its title and "".
func sectionOf(t *testing.T, text string, c pageCommand) (names []string) {
	t.Helper()
	_, number, _ := strings.Cut(c.place, ":")
	for _, line := range strings.Split(text, "\n")[:try(strconv.Atoi(number)).must(t)] {
		if title, ok := strings.CutPrefix(line, "# "); ok {
			names = []string{"", title}
		} else if title, ok := strings.CutPrefix(line, "## "); ok {
			names = []string{title}
		}
	}
	return names
}

func TestDocuments_WhoTypesACommand(t *testing.T) {
	t.Parallel()
	source := `package p
func f() {
	const page = "docs/a.md"
	a, b := 1, "docs/b.md"
	for _, s := range []string{"One", "Two"} { o.follow(t, page, s) }
	for k := range map[string]int{"x/y": 1} { commandsUnder(t, b, "", "set "+k, "image") }
	o.commandOf(t, page, "helm install")
	o.follow(t, page, unknown)
}`
	f := try(parser.ParseFile(token.NewFileSet(), "a.go", source, 0)).must(t).Decls[0].(*ast.FuncDecl)
	known := textsOf(f)
	equal(t, "a loop's variable", patterns(ast.NewIdent("s"), known), []string{"One", "Two"})
	equal(t, "an unknown variable", len(patterns(ast.NewIdent("unknown"), known)), 0)
	page := func(name string) string { return patterns(ast.NewIdent(name), known)[0] }
	for _, c := range []struct {
		what, page, section, before, command string
		call                                 typist
		isTyped                              bool
	}{
		{what: "its command", page: "docs/b.md", command: "kubectl set x/y image=a", isTyped: true,
			call: under(page("b"), []string{"", "set x/y", "image"})},
		{what: "another command", page: "docs/b.md", command: "kubectl set x/z image=a",
			call: under(page("b"), []string{"", "set x/y", "image"})},
		{what: "another page", page: "docs/c.md", command: "kubectl set x/y image=a",
			call: under(page("b"), []string{"", "set x/y", "image"})},
		{what: "another section", page: "docs/b.md", section: "One", command: "kubectl set x/y image=a",
			call: under(page("b"), []string{"", "set x/y", "image"})},
		{what: "its section", page: "docs/a.md", section: "One", command: "x", isTyped: true,
			call: takers["follow"](page("page"), []string{"One"})},
		{what: "a longer name", page: "docs/a.md", section: "One more", command: "x",
			call: takers["follow"](page("page"), []string{"One"})},
		{what: "the first", page: "docs/a.md", command: "helm install a", isTyped: true,
			call: takers["commandOf"](page("page"), []string{"helm install"})},
		{what: "the second", page: "docs/a.md", command: "helm install b", before: "helm install a",
			call: takers["commandOf"](page("page"), []string{"helm install"})},
		{what: "not at the beginning", page: "docs/a.md", command: "x helm install a",
			call: takers["commandOf"](page("page"), []string{"helm install"})},
	} {
		before := []pageCommand{{text: c.before}}
		got := isTyped([]typist{c.call}, c.page, []string{c.section}, before, pageCommand{text: c.command})
		equal(t, c.what, got, c.isTyped)
	}
}
