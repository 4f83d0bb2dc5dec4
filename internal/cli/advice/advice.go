// Package advice says what an operator can do about a reason, a refusal or a finding: a
// sentence, and where there is one a command with the real names filled in. It is data:
// reasons.go, refusals.go and findings.go are the templates, by cause; conflict.go decides
// which of several pods with one address keeps it. It does no I/O.
package advice

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Step is one thing that an operator can do, or know.
type Step struct {
	// Cause is the reason, refusal or kind of finding that it is about; several are joined
	// by ", ".
	Cause string
	// Why says what it is for, and with what care.
	Why string
	// Command is for a shell, as it stands; "" where there is nothing to run.
	Command string
	// OnNode is the node on which the command must be run; "" for anywhere with a kubeconfig.
	OnNode string
}

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

// Facts are the names that templates have places for; "" where one is not known.
type Facts struct {
	Address     string
	Pool        string // "<namespace>/<name>"
	Reservation string // "<namespace>/<name>"
	Pod         string // "<namespace>/<name>" of the pod that is recorded
	Container   string // id of the sandbox
	// Nodes are those that the cause is about, DownNodes those of them that are not Ready,
	// and not declared dead yet.
	Nodes, DownNodes []string
	// OtherPod is a pod, as "<namespace>/<name>", that carries the address, too;
	// OtherContainer is a sandbox that does, on OtherNode.
	OtherPod, OtherContainer, OtherNode string
	// Restored is when etcd was restored, in RFC 3339.
	Restored string
}

// template is a Step before the names are filled in; on is the node on which the command
// is run. A template with a place for a name that is not known is left out, and one with
// {node} or {downnode} is there for each node.
type template struct{ why, command, on string }

// eachOf are the nodes for each of which a template is there, by the name of the place; ""
// where it is there once.
func (t template) eachOf(f Facts) (place string, nodes []string) {
	switch text := t.why + t.command + t.on; {
	case strings.Contains(text, "{node}"):
		return "node", f.Nodes
	case strings.Contains(text, "{downnode}"):
		return "downnode", f.DownNodes
	}
	return "", nil
}

// nodesShown is for how many nodes there are commands.
const nodesShown = 3

// fill makes steps of templates.
func (a Advisor) fill(cause string, f Facts, templates []template) []Step {
	var steps []Step
	values, more := a.values(f), []string(nil)
	for _, t := range templates {
		place, nodes := t.eachOf(f)
		if place == "" {
			steps = add(steps, a, cause, t, values)
			continue
		}
		for _, node := range nodes[:min(len(nodes), nodesShown)] {
			values[place] = node
			steps = add(steps, a, cause, t, values)
		}
		if len(nodes) > max(nodesShown, len(more)) {
			more = nodes
		}
	}
	if len(more) > 0 {
		why, _ := printable(fmt.Sprintf("The same for %d more: %s.", len(more)-nodesShown, strings.Join(more[nodesShown:], ", ")))
		steps = append(steps, Step{Cause: cause, Why: why})
	}
	return steps
}

func add(steps []Step, a Advisor, cause string, t template, values map[string]string) []Step {
	why, known := replace(t.why, values, printable)
	if !known {
		return steps
	}
	s := Step{Cause: cause, Why: why}
	if t.command != "" {
		if s.Command, known = a.command(t.command, values); !known {
			return steps
		}
	}
	if t.on != "" {
		if s.OnNode, known = replace(t.on, values, printable); !known {
			return steps
		}
	}
	return append(steps, s)
}

// values are what the places are filled with.
func (a Advisor) values(f Facts) map[string]string {
	v := map[string]string{
		"program": a.Program, "namespace": a.Namespace, "ip": f.Address, "pool": f.Pool, "pod": f.Pod, "container": f.Container,
		"otherpod": f.OtherPod, "othercontainer": f.OtherContainer, "othernode": f.OtherNode, "restored": f.Restored,
	}
	v["poolnamespace"], v["poolname"], _ = strings.Cut(f.Pool, "/")
	v["podnamespace"], v["podname"], _ = strings.Cut(f.Pod, "/")
	v["reservationnamespace"], v["reservationname"], _ = strings.Cut(f.Reservation, "/")
	return v
}

// command fills in a command. {inpool} is the flag that picks the pool, nothing where no
// pool is known. {program} is no name, and may be of two words: "kubectl ip-reconcile", which
// takes flags at its end alone.
func (a Advisor) command(text string, values map[string]string) (string, bool) {
	inPool := ""
	if values["pool"] != "" {
		inPool = " --pool={pool}"
	}
	text = strings.ReplaceAll(text, " {inpool}", inPool)
	text, known := replace(strings.ReplaceAll(text, "{program} ", plainProgram+" "), values, quote)
	if !known {
		return "", false
	}
	return a.OnCluster(text), true
}

// plainProgram is how commands call this program until OnCluster has seen them.
const plainProgram = "ip-reconcile"

// OnCluster is a command of ip-reconcile or kubectl with the flags that say which cluster it is.
func (a Advisor) OnCluster(command string) string {
	if rest, ours := strings.CutPrefix(command, plainProgram+" "); ours {
		return strings.Join(append([]string{a.Program, rest}, a.Flags...), " ")
	}
	if len(a.KubectlFlags) > 0 {
		command = strings.ReplaceAll(command, "kubectl ", "kubectl "+strings.Join(a.KubectlFlags, " ")+" ")
	}
	return command
}

// replace fills in the names, each as told; known is false where one is not known, or
// cannot be written. A place is lower case letters in braces: kubectl's own JSONPath has a
// dot there.
func replace(text string, values map[string]string, as func(string) (string, bool)) (filled string, known bool) {
	var b strings.Builder
	known = true
	for {
		before, rest, found := strings.Cut(text, "{")
		b.WriteString(before)
		if !found {
			return b.String(), known
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed || name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz") != "" {
			b.WriteString("{")
			text = rest
			continue
		}
		value, ok := as(values[name])
		known = known && ok
		b.WriteString(value)
		text = after
	}
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
func Unique(steps []Step) []Step {
	seen, first := map[[3]string]int{}, map[string]int{}
	var unique []Step
	for _, s := range steps {
		key := [3]string{s.Command, s.OnNode}
		if s.Command == "" || s.Cause == string(judge.Conflict) {
			key[2] = s.Why
		}
		if at, there := seen[key]; !there {
			seen[key] = len(unique)
			unique = append(unique, s)
		} else if causes := strings.Split(unique[at].Cause, ", "); !slices.Contains(causes, s.Cause) {
			unique[at].Cause += ", " + s.Cause
		}
	}
	for i, s := range unique {
		if _, there := first[s.firstCause()]; !there {
			first[s.firstCause()] = i
		}
	}
	slices.SortStableFunc(unique, func(a, b Step) int { return first[a.firstCause()] - first[b.firstCause()] })
	slices.SortStableFunc(unique, func(a, b Step) int { return a.last() - b.last() })
	return unique
}

func (s Step) firstCause() string {
	cause, _, _ := strings.Cut(s.Cause, ",")
	return cause
}

// last is 1 for how something is released: all that must be known before goes before it.
func (s Step) last() int {
	if s.firstCause() == judge.Stale.String() {
		return 1
	}
	return 0
}
