// Package advice says what an operator can do about a reason, a refusal or a finding: a
// sentence, and where there is one a command with the real names filled in. It is data:
// reasons.go, refusals.go and findings.go are the templates, by cause; conflict.go decides
// which of several pods with one address keeps it. It does no I/O.
package advice

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Step is one thing that an operator can do, or know.
type Step struct {
	// Cause is the reason, refusal or kind of finding that it is about.
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

// Flag adds a flag that was given to this command to those that follow. Only kubectl's own
// are added to its commands, and a value that cannot be written is left out.
func (a *Advisor) Flag(name, value string) {
	text, ok := quote(value)
	if !ok {
		return
	}
	text = "--" + name + "=" + text
	a.Flags = append(a.Flags, text)
	if name == "kubeconfig" || name == "context" {
		a.KubectlFlags = append(a.KubectlFlags, text)
	}
}

// Facts are the names that templates have places for; "" where one is not known.
type Facts struct {
	Address     string
	Pool        string // "<namespace>/<name>"
	Reservation string // "<namespace>/<name>"
	Pod         string // "<namespace>/<name>" of the pod that is recorded
	Container   string // id of the sandbox
	// Nodes are those that the cause is about.
	Nodes []string
	// Other is who else carries the address: a pod as "<namespace>/<name>", or a sandbox.
	OtherPod, OtherContainer, OtherNode string
	// Restored is when etcd was restored, in RFC 3339.
	Restored string
	// Lease is a Lease that could not be taken, in the namespace of the pool.
	Lease string
}

// template is a Step before the names are filled in. A template with a place for a name
// that is not known is left out, and one with {node} is there for each node.
type template struct {
	why, command string
	onNode       bool
}

// nodesShown is for how many nodes there are commands.
const nodesShown = 3

// fill makes steps of templates.
func (a Advisor) fill(cause string, f Facts, templates []template) []Step {
	var steps []Step
	for _, t := range templates {
		if !strings.Contains(t.why+t.command, "{node}") && !t.onNode {
			steps = a.add(steps, cause, f, t, "")
			continue
		}
		for _, node := range f.Nodes[:min(len(f.Nodes), nodesShown)] {
			steps = a.add(steps, cause, f, t, node)
		}
	}
	if more := len(f.Nodes) - nodesShown; more > 0 && slices.ContainsFunc(steps, func(s Step) bool { return strings.Contains(s.Command, f.Nodes[0]) || s.OnNode == f.Nodes[0] }) {
		steps = append(steps, Step{Cause: cause, Why: fmt.Sprintf("The same for %d more: %s.", more, strings.Join(f.Nodes[nodesShown:], ", "))})
	}
	return steps
}

func (a Advisor) add(steps []Step, cause string, f Facts, t template, node string) []Step {
	values := a.values(f, node)
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
	if t.onNode {
		s.OnNode = node
	}
	return append(steps, s)
}

// values are what the places are filled with.
func (a Advisor) values(f Facts, node string) map[string]string {
	v := map[string]string{
		"program": a.Program, "namespace": a.Namespace, "ip": f.Address, "pool": f.Pool, "pod": f.Pod, "container": f.Container, "node": node,
		"otherpod": f.OtherPod, "othercontainer": f.OtherContainer, "othernode": f.OtherNode, "restored": f.Restored, "lease": f.Lease,
	}
	v["poolnamespace"], v["poolname"], _ = strings.Cut(f.Pool, "/")
	v["podnamespace"], v["podname"], _ = strings.Cut(f.Pod, "/")
	v["reservationnamespace"], v["reservationname"], _ = strings.Cut(f.Reservation, "/")
	return v
}

// command fills in a command. {inpool} is the flag that picks the pool, nothing where no
// pool is known.
func (a Advisor) command(text string, values map[string]string) (string, bool) {
	inPool := ""
	if values["pool"] != "" {
		inPool = " --pool={pool}"
	}
	text = strings.ReplaceAll(text, " {inpool}", inPool)
	text, known := replace(text, values, quote)
	if !known {
		return "", false
	}
	if flags := strings.Join(a.KubectlFlags, " "); flags != "" {
		text = strings.ReplaceAll(text, "kubectl ", "kubectl "+flags+" ")
	}
	if flags := strings.Join(a.Flags, " "); flags != "" && strings.HasPrefix(text, a.Program+" ") {
		text += " " + flags
	}
	return text, true
}

// place is the place of a name in a template. kubectl's own JSONPath has a dot in braces.
func place() *regexp.Regexp { return regexp.MustCompile(`\{[a-z]+\}`) }

// replace fills in the names, each as told; known is false where one is not known, or
// cannot be written.
func replace(text string, values map[string]string, as func(string) (string, bool)) (filled string, known bool) {
	known = true
	filled = place().ReplaceAllStringFunc(text, func(name string) string {
		value, ok := as(values[strings.Trim(name, "{}")])
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
	if regexp.MustCompile(`^[A-Za-z0-9@%+=:,./_-]+$`).MatchString(text) {
		return text, true
	}
	return "'" + text + "'", true
}

// Unique leaves out steps whose command, or where there is none whose sentence, was there
// before.
func Unique(steps []Step) []Step {
	seen := map[[2]string]bool{}
	var unique []Step
	for _, s := range steps {
		key := [2]string{s.Command, s.OnNode}
		if s.Command == "" {
			key[0] = s.Why
		}
		if !seen[key] {
			seen[key] = true
			unique = append(unique, s)
		}
	}
	return unique
}
