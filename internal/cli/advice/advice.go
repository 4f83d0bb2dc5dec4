// Package advice says what an operator can do about a reason, a refusal or a finding: a
// sentence, and where there is one a command with the real names filled in. advice.yaml has them.
package advice

import (
	"cmp"
	_ "embed"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Advisor fills names into templates.
type Advisor struct {
	// Program is how this program is called.
	Program string
	// Namespace is the reconciler's own, where its agents are, too.
	Namespace string
	// Flags and KubectlFlags say which cluster it is; they follow every command of this
	// program, and of kubectl.
	Flags, KubectlFlags []string
}

// Flag adds a flag that was given to this command to those that follow. A value that cannot
// be written is left out.
func (a *Advisor) Flag(name, value string) {
	if text, ok := quote(value); ok {
		a.Flags = append(a.Flags, "--"+name+"="+text)
	}
}

// ClusterFlag adds a flag that kubectl has, too: to the commands of both.
func (a *Advisor) ClusterFlag(name, value string) {
	a.Flag(name, value)
	if text, ok := quote(value); ok {
		a.KubectlFlags = append(a.KubectlFlags, "--"+name+"="+text)
	}
}

// Facts are what the templates have places for.
type Facts struct {
	// Names are by their place, "" where one is not known. {pool.namespace} and {pool.name} are the
	// parts of {pool}.
	Names map[string]string
	// Nodes are those that the cause is about, DownNodes those of them that are not Ready,
	// and not declared dead yet.
	Nodes, DownNodes []string
}

// template is a step before the names are filled in, or the name of a part.
type template struct{ Why, Command, Node, Use string }

//go:embed advice.yaml
var source []byte

// templates are those of advice.yaml, by section and cause.
var templates = sync.OnceValue(func() (all map[string]map[string][]template) {
	if err := yaml.UnmarshalStrict(source, &all); err != nil {
		panic(err) // it is part of the program
	}
	for _, section := range all {
		for cause, list := range section {
			var whole []template
			for _, t := range list {
				if t.Use == "" {
					whole = append(whole, t)
				}
				whole = append(whole, all["parts"][t.Use]...)
			}
			section[cause] = whole
		}
	}
	return all
})

// nodesShown is for how many nodes there are commands.
const nodesShown = 3

// Steps are the steps of an entry of advice.yaml. Their cause is the first word of its name; those
// of the section "more" have none.
func (a Advisor) Steps(section, name string, f Facts) (steps []document.Advice) {
	cause, _, _ := strings.Cut(name, " ")
	if section == "more" {
		cause = ""
	}
	var more []string
	for _, t := range templates()[section][name] {
		place, nodes := "", []string{""}
		switch text := t.Why + t.Command + t.Node; {
		case strings.Contains(text, "{node}"):
			place, nodes = "node", f.Nodes
		case strings.Contains(text, "{downnode}"):
			place, nodes = "downnode", f.DownNodes
		}
		if len(nodes) > max(nodesShown, len(more)) {
			more = nodes
		}
		for _, node := range nodes[:min(len(nodes), nodesShown)] {
			if s, known := a.fill(t, f, place, node); known {
				s.Cause = cause
				steps = append(steps, s)
			}
		}
	}
	if len(more) > 0 {
		why, _ := printable(fmt.Sprintf("The same for %d more: %s.", len(more)-nodesShown, strings.Join(more[nodesShown:], ", ")))
		steps = append(steps, document.Advice{Cause: cause, Why: why})
	}
	return steps
}

// fill makes a step of a template; place is that of the node.
func (a Advisor) fill(t template, f Facts, place, node string) (s document.Advice, known bool) {
	name := func(at string) string {
		whole, part, _ := strings.Cut(at, ".")
		namespace, name, _ := strings.Cut(f.Names[whole], "/")
		switch {
		case at == place:
			return node
		case at == "namespace":
			return a.Namespace
		case part == "namespace":
			return namespace
		case part == "name":
			return name
		}
		return f.Names[at]
	}
	inPool := ""
	if f.Names["pool"] != "" {
		inPool = " --pool={pool}"
	}
	why, knowsWhy := replace(t.Why, name, printable)
	command, knowsCommand := replace(strings.ReplaceAll(t.Command, " {inpool}", inPool), name, quote)
	on, knowsOn := replace(t.Node, name, printable)
	return document.Advice{Why: why, Command: a.OnCluster(command), OnNode: on}, knowsWhy && knowsCommand && knowsOn
}

// plainProgram is how commands call this program until OnCluster has seen them.
const plainProgram = "ip-reconcile"

// OnCluster is a command of ip-reconcile or kubectl with the flags that say which cluster it is. The
// program may be of two words, "kubectl ip-reconcile", which takes flags at its end alone.
func (a Advisor) OnCluster(command string) string {
	if rest, ours := strings.CutPrefix(command, plainProgram+" "); ours {
		return strings.Join(append([]string{a.Program, rest}, a.Flags...), " ")
	}
	if len(a.KubectlFlags) > 0 {
		command = strings.ReplaceAll(command, "kubectl ", "kubectl "+strings.Join(a.KubectlFlags, " ")+" ")
	}
	return command
}

var places = regexp.MustCompile(`\{[a-z]+(\.[a-z]+)?\}`)

// replace fills in the names, each in the form that as gives it; known is false where one is not
// known, or cannot be written.
func replace(text string, name func(string) string, as func(string) (string, bool)) (filled string, known bool) {
	known = true
	filled = places.ReplaceAllStringFunc(text, func(place string) string {
		value, ok := as(name(strings.Trim(place, "{}")))
		known = known && ok
		return value
	})
	return filled, known
}

func printable(text string) (string, bool) {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text), text != ""
}

// quote writes a name into a command. Not all names are Kubernetes' own: an agent or a
// runtime may report any text as an id, and a command is copied into a shell. What would be
// taken for a flag, or has what no name has, is not written at all.
func quote(text string) (string, bool) {
	if text == "" || text[0] == '-' || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == '\'' }) {
		return "", false
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return "'" + text + "'", true
	}
	return text, true
}

// plain reports whether a character is no more than itself in every shell.
func plain(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("@%+=:,./_-", r)
}

// Unique leaves out steps whose command, or where there is none whose sentence, was there
// before: the first is then for the causes of both. Those of one cause are put together,
// and how something is released comes last. The steps on a Conflict stay whole and in
// their order, whatever others there are.
func Unique(steps []document.Advice) []document.Advice {
	seen, rank := map[[3]string]int{}, map[string]int{judge.Stale.String(): math.MaxInt}
	var unique []document.Advice
	for _, s := range steps {
		key := [3]string{s.Command, s.OnNode}
		if s.Command == "" || s.Cause == string(judge.Conflict) {
			key[2] = s.Why
		}
		at, there := seen[key]
		if !there {
			seen[key] = len(unique)
			unique = append(unique, s)
			if _, ranked := rank[firstCause(s)]; !ranked {
				rank[firstCause(s)] = len(unique)
			}
		} else if causes := strings.Split(unique[at].Cause, ", "); !slices.Contains(causes, s.Cause) {
			unique[at].Cause += ", " + s.Cause
		}
	}
	slices.SortStableFunc(unique, func(a, b document.Advice) int { return cmp.Compare(rank[firstCause(a)], rank[firstCause(b)]) })
	return unique
}

func firstCause(s document.Advice) string {
	cause, _, _ := strings.Cut(s.Cause, ",")
	return cause
}
