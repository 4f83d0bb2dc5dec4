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

	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/table"
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
	names := map[string]string{"namespace": a.Namespace}
	for place, value := range f.Names {
		names[place] = value
		names[place+".namespace"], names[place+".name"], _ = strings.Cut(value, "/")
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
			names[place] = node
			if s, known := a.fill(t, names); known {
				s.Cause = cause
				steps = append(steps, s)
			}
		}
	}
	if len(more) > 0 {
		more = more[nodesShown:]
		why := fmt.Sprintf("The same for %d more: %s.", len(more), strings.Join(more, ", "))
		steps = append(steps, document.Advice{Cause: cause, Why: table.Clean(why)})
	}
	return steps
}

// fill makes a step of a template; known is false where a name of it is not known, or cannot be written.
func (a Advisor) fill(t template, names map[string]string) (s document.Advice, known bool) {
	known = true
	replace := func(text string, as func(string) (string, bool)) string {
		return places.ReplaceAllStringFunc(text, func(place string) string {
			value, ok := as(names[strings.Trim(place, "{}")])
			known = known && ok
			return value
		})
	}
	inPool := ""
	if names["pool"] != "" {
		inPool = " --pool={pool}"
	}
	command := a.OnCluster(replace(strings.ReplaceAll(t.Command, " {inpool}", inPool), quote))
	return document.Advice{Why: replace(t.Why, printable), Command: command, OnNode: replace(t.Node, printable)}, known
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

// places are those of names in a template. kubectl's own JSONPath begins with a dot.
var places = regexp.MustCompile(`\{[a-z]+(\.[a-z]+)?\}`)

func printable(text string) (string, bool) { return table.Clean(text), text != "" }

// quote writes a name into a command. Not all names are Kubernetes' own: an agent or a
// runtime may report any text as an id, and a command is copied into a shell. What would be
// taken for a flag, or has what no name has, is not written at all.
func quote(text string) (string, bool) {
	switch {
	case text == "" || text[0] == '-' || strings.Contains(text, "'") || table.Clean(text) != text:
		return "", false
	case plain.MatchString(text):
		return text, true
	}
	return "'" + text + "'", true
}

// plain are characters that are no more than themselves in every shell.
var plain = regexp.MustCompile(`^[a-zA-Z0-9@%+=:,./_-]*$`)

// Unique leaves out steps whose command, or where there is none whose sentence, was there before. Those of one cause are
// put together, and how something is released comes last.
func Unique(steps []document.Advice) (unique []document.Advice) {
	seen, rank := map[document.Advice]bool{}, map[string]int{judge.Stale.String(): math.MaxInt}
	for _, s := range steps {
		key := s
		if key.Cause = ""; s.Command != "" {
			key.Why = ""
		}
		if seen[key] {
			continue
		}
		seen[key] = true
		if _, ranked := rank[s.Cause]; !ranked {
			rank[s.Cause] = len(rank)
		}
		unique = append(unique, s)
	}
	slices.SortStableFunc(unique, func(a, b document.Advice) int { return cmp.Compare(rank[a.Cause], rank[b.Cause]) })
	return unique
}
