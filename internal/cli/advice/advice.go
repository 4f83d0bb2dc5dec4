// Package advice has the steps that an operator can take about a reason, a refusal or a finding. A step is a sentence,
// and may have a command with the real names filled in. advice.yaml has the steps.
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

	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Advisor fills names into the steps of advice.yaml.
type Advisor struct {
	// Program is the command that calls this program.
	Program string
	// Namespace is that of the reconciler and its agents.
	Namespace string
	// Flags are appended to commands of this program, and KubectlFlags to those of kubectl. They name the cluster.
	Flags, KubectlFlags []string
	// helmFlags are those of helm that name the cluster.
	helmFlags []string
	// WithoutAgents is true for a cluster without node agents, whose steps do not speak of agents and reports.
	WithoutAgents bool
	// Nodes have the kubelets' versions, which name the distribution.
	Nodes map[string]*podstate.Node
}

// Flag appends a flag to Flags. It drops a value that no command can have.
func (a *Advisor) Flag(name, value string) {
	if text, ok := Quote(value); ok {
		a.Flags = append(a.Flags, "--"+name+"="+text)
	}
}

// helmNames are helm's names of kubectl's flags. helm has none for --cluster and --user.
var helmNames = map[string]string{"kubeconfig": "kubeconfig", "context": "kube-context", "server": "kube-apiserver",
	"as": "kube-as-user", "as-group": "kube-as-group", "certificate-authority": "kube-ca-file",
	"tls-server-name": "kube-tls-server-name", "insecure-skip-tls-verify": "kube-insecure-skip-tls-verify"}

// ClusterFlag appends a flag that names the cluster to the flags of each program that has it.
func (a *Advisor) ClusterFlag(name, value string) {
	a.Flag(name, value)
	text, ok := Quote(value)
	if !ok {
		return
	}
	a.KubectlFlags = append(a.KubectlFlags, "--"+name+"="+text)
	if helm := helmNames[name]; helm != "" {
		a.helmFlags = append(a.helmFlags, "--"+helm+"="+text)
	}
}

// Facts fill the places in templates.
type Facts struct {
	// Names has a name for each place, "" for an unknown one. {pool.namespace} and {pool.name} are the parts of {pool}.
	Names map[string]string
	// Nodes are the nodes of the cause. DownNodes are those of them that are neither Ready nor declared dead.
	Nodes, DownNodes []string
	// Most is how many nodes have steps of their own; zero is nodesShown.
	Most int
}

type template struct {
	Why, Command, Node, Use string
	// Agents is true for a step of clusters with node agents only, and false for one of clusters without; nil for both.
	Agents *bool
}

//go:embed advice.yaml
var source []byte

var templates = sync.OnceValue(func() (all map[string]map[string][]template) {
	if err := yaml.UnmarshalStrict(source, &all); err != nil {
		panic(err) // the file is part of the program
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

const (
	nodesShown = 3
	namesShown = 20
)

// Steps returns the steps of an entry of advice.yaml. Their cause is its first word, Conflict in the section
// "conflict", and "" in the section "more".
func (a Advisor) Steps(section, name string, f Facts) (steps []view.Advice) {
	cause, _, _ := strings.Cut(name, " ")
	switch section {
	case "conflict":
		cause = string(findings.Conflict)
	case "more":
		cause = ""
	}
	names := map[string]string{"namespace": a.Namespace}
	for place, value := range f.Names {
		names[place] = value
		names[place+".namespace"], names[place+".name"], _ = strings.Cut(value, "/")
	}
	var more []string
	most := cmp.Or(f.Most, nodesShown)
	for _, t := range templates()[section][name] {
		if t.Agents != nil && *t.Agents == a.WithoutAgents {
			continue
		}
		place, nodes := "", []string{""}
		switch text := t.Why + t.Command + t.Node; {
		case strings.Contains(text, "{node}"):
			place, nodes = "node", f.Nodes
		case strings.Contains(text, "{downnode}"):
			place, nodes = "downnode", f.DownNodes
		}
		if len(nodes) > max(most, len(more)) {
			more = nodes
		}
		for _, node := range nodes[:min(len(nodes), most)] {
			names[place] = node
			here := t
			here.Command = a.onDistribution(t.Command, names[strings.Trim(t.Node, "{}")])
			if s, known := a.fill(here, names); known {
				s.Cause = cause
				steps = append(steps, s)
			}
		}
	}
	if len(more) > 0 {
		more = more[most:]
		why := fmt.Sprintf("The same for %d more: %s.", len(more), facts.AtMost(more, namesShown))
		steps = append(steps, view.Advice{Cause: cause, Why: view.Clean(why)})
	}
	return steps
}

// onDistribution returns a command for a node in the form for the node's distribution: crictl and kubelet are parts of
// RKE2 and k3s. A node without a Node object is taken for one of the distribution of another node.
func (a Advisor) onDistribution(command, node string) string {
	of := a.Nodes[node]
	for _, n := range a.Nodes {
		if a.Nodes[node] == nil && (of == nil || n.Name < of.Name) {
			of = n
		}
	}
	var crictl, unit string
	switch {
	case of == nil:
		return command
	case strings.Contains(of.KubeletVersion, "+rke2"):
		crictl = "/var/lib/rancher/rke2/bin/crictl --runtime-endpoint=unix:///run/k3s/containerd/containerd.sock "
		unit = "rke2-$(systemctl is-enabled -q rke2-server && echo server || echo agent)"
	case strings.Contains(of.KubeletVersion, "+k3s"):
		crictl, unit = "k3s crictl ", "k3s$(systemctl is-enabled -q k3s || echo -agent)"
	default:
		return command
	}
	return strings.NewReplacer("crictl ", crictl, "restart kubelet", "restart "+unit).Replace(command)
}

// fill fills the names into a template. known is false where a name is unknown or no command can have it.
func (a Advisor) fill(t template, names map[string]string) (s view.Advice, known bool) {
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
	command := a.OnCluster(replace(strings.ReplaceAll(t.Command, " {inpool}", inPool), Quote))
	return view.Advice{Why: replace(t.Why, printable), Command: command, OnNode: replace(t.Node, printable)}, known
}

// OnCluster adds the flags that name the cluster to a command of ip-reconcile, helm or kubectl. A plugin's command
// ("kubectl ip-reconcile") takes flags only at its end.
func (a Advisor) OnCluster(command string) string {
	if rest, ours := strings.CutPrefix(command, "ip-reconcile "); ours {
		return strings.Join(append([]string{a.Program, rest}, a.Flags...), " ")
	}
	if strings.HasPrefix(command, "helm ") {
		return strings.Join(append([]string{command}, a.helmFlags...), " ")
	}
	if len(a.KubectlFlags) > 0 {
		command = strings.ReplaceAll(command, "kubectl ", "kubectl "+strings.Join(a.KubectlFlags, " ")+" ")
	}
	return command
}

// places matches the places of names in a template. kubectl's JSONPath begins with a dot, and does not match.
var places = regexp.MustCompile(`\{[a-z]+(\.[a-z]+)?\}`)

func printable(text string) (string, bool) { return view.Clean(text), text != "" }

// Quote quotes a name for a shell. An agent or a runtime may report any text as an id, and a snapshot may have any as a
// name. ok is false for a text that a command would take for a flag, or that has quotes or control characters.
func Quote(text string) (quoted string, ok bool) {
	switch {
	case text == "" || text[0] == '-' || strings.Contains(text, "'") || view.Clean(text) != text:
		return "", false
	case plain.MatchString(text):
		return text, true
	}
	return "'" + text + "'", true
}

// QuotePath quotes the path of a file that a person has named, for a shell.
func QuotePath(path string) string {
	if strings.HasPrefix(path, "-") && path != "-" {
		path = "./" + path
	}
	if plain.MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

var plain = regexp.MustCompile(`^[a-zA-Z0-9@%+=:,./_-]*$`)

// Unique drops steps that repeat a command, or a sentence without one. It groups steps by cause, releases last.
func Unique(steps []view.Advice) (unique []view.Advice) {
	seen, rank := map[view.Advice]bool{}, map[string]int{judge.Stale.String(): math.MaxInt}
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
	slices.SortStableFunc(unique, func(a, b view.Advice) int { return cmp.Compare(rank[a.Cause], rank[b.Cause]) })
	return unique
}
