//go:build !slow && !cluster

package e2e

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// newCommandStage is a stage with what documents and advice name: the installed product, whereabouts, pods
// of the network 10.0.0.0/24, and Calico's CRD.
func newCommandStage(t *testing.T) *stage {
	t.Helper()
	s := newStageWithReports(t, "worker-1", "worker-2", "worker-4")
	s.applied(t, "../deploy/deployment-with-agent")
	s.mustKubectl(t, "apply", "-f", "../deploy/namespace/namespace.yaml")
	s.mustKubectl(t, "apply", "-f", harness.UpstreamManifest(t, "daemonset-install.yaml"))
	s.mustKubectl(t, "apply", "-f", "testdata/named.yaml")
	net := simple("blue", "10.0.0.0/24")
	check(t, s.CreateNAD(t.Context(), net))
	agent := s.agent(t, "worker-1")
	s.agent(t, "worker-2")
	web0, web1 := s.up(t, "worker-1", "web-0", net), s.up(t, "worker-1", "web-1", net)
	agent.writeReport(t, web0.listed(v1alpha1.SandboxReady), web1.listed(v1alpha1.SandboxReady))
	return s
}

// capitals are what a reader fills in.
var capitals = map[string]string{
	"NAMESPACE": "default", "POD": "web-0", "NODE": "worker-1", "DIR": "samples/cluster", "IP": "10.0.0.1",
	"ADDRESS": "10.0.0.1", "WORD": "Held",
	"POOL": "10.0.0.0-24", "TIME": "2026-11-20T10:00:00Z",
}

var capital = regexp.MustCompile(`(^|[^$A-Z_{-])([A-Z]{2,})\b`)

func TestCommands_EachOfTheDocumentsRuns(t *testing.T) {
	t.Parallel()
	s := newCommandStage(t)
	kubeconfig := s.twoContexts(t, "admin")
	n, calls := 0, typists(t)
	all, ofAlerts := pages(t), s.alertLabels(t)
	run := map[string]bool{}
	for page, text := range all {
		t.Run(page, func(t *testing.T) {
			w, assignments := s.workplace(t, kubeconfig), ""
			commands := commandsOf(page, text)
			for i, c := range commands {
				if assignment.MatchString(c.text) {
					assignments += c.text + "\n"
					continue
				}
				n++
				w.run(t, c.place, assignments, capital.ReplaceAllStringFunc(c.text, func(found string) string {
					parts := capital.FindStringSubmatch(found)
					value := capitals[parts[2]]
					if page == "docs/operate/alerts.md" {
						value = cmp.Or(ofAlerts[parts[2]], value)
					}
					if value != "" {
						return parts[1] + value
					}
					return found
				}))
				run[c.text] = w.hasRun() || run[c.text] || isTyped(calls, page, sectionOf(t, text, c), commands[:i], c)
			}
		})
	}
	checkMarks(t, all, run)
	if n < 50 {
		t.Errorf("the documents have only %d commands", n)
	}
}

// alertLabels are what a reader of an alert on a pool fills in: by its label, which is that of the metric.
func (s *stage) alertLabels(t *testing.T) map[string]string {
	t.Helper()
	v := s.serve(t, s.Kubeconfig())
	response := try(http.Get("http://" + v.metrics + "/metrics")).must(t)
	defer response.Body.Close()
	text := string(try(io.ReadAll(response.Body)).must(t))
	check(t, v.cmd.Process.Kill())
	pool := regexp.MustCompile(`ip_reconcile_pool_addresses\{[^}]*pool="([^"]*/10\.0\.0\.0-24)"`).FindStringSubmatch(text)
	if pool == nil {
		t.Fatal("no metric has the pool 10.0.0.0-24")
	}
	namespace, name, _ := strings.Cut(pool[1], "/")
	return map[string]string{"POOL": pool[1], "NAMESPACE": namespace, "NAME": name}
}

// twoContexts is a kubeconfig with a context "admin" for the stage and a context "other" for a cluster that
// cannot be reached.
func (s *stage) twoContexts(t *testing.T, current string) string {
	t.Helper()
	config := try(clientcmd.LoadFromFile(s.Kubeconfig())).must(t)
	admin := config.Contexts[config.CurrentContext]
	config.Contexts = map[string]*clientcmdapi.Context{"admin": admin, "other": {Cluster: "other",
		AuthInfo: admin.AuthInfo}}
	config.Clusters["other"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
	config.CurrentContext = current
	path := filepath.Join(t.TempDir(), "two-contexts")
	check(t, clientcmd.WriteToFile(*config, path))
	return path
}

// The context that a command was given is in the commands that it prints: without it they are for another cluster.
func TestCommands_EachThatIsPrintedRuns(t *testing.T) {
	t.Parallel()
	s := newCommandStage(t)
	for kind, r := range map[string]schema.GroupVersionResource{"IPAMClaim": ipamClaims,
		"VirtualMachineInstance": podstate.GuestResource} {
		s.serves(t, r, openCRD(r, kind))
		try(s.Dynamic().Resource(r).Namespace(metav1.NamespaceDefault).Create(t.Context(),
			objects(r, kind, map[string]any{})("vm-1"), metav1.CreateOptions{})).must(t)
	}
	kubeconfig := s.twoContexts(t, "other")
	w := s.workplace(t, kubeconfig)
	names := map[string]string{
		"pod.namespace": "default", "pod.name": "web-0", "otherpod": "default/web-1", "namespace": metav1.NamespaceSystem,
		"ip": "10.0.0.1", "pool": "10.0.0.0-24", "pool.namespace": metav1.NamespaceSystem, "pool.name": "10.0.0.0-24",
		"repairpool": "10.0.0.0-24", "claimingpod.namespace": "default", "claimingpod.name": "web-0",
		"inpool": "--pool=10.0.0.0-24", "reservation.namespace": metav1.NamespaceSystem, "reservation.name": "10.0.0.1",
		"node": "worker-1", "downnode": "worker-2", "container": noID, "othercontainer": noID,
		"restore": "k3f7q2m9xa", "newrange": "10.0.0.0/25", "claim.namespace": "default", "claim.name": "vm-1",
		"machine.namespace": "default", "machine.name": "vm-1",
		"definition.namespace": "default", "definition.name": "blue",
		"podrefpatch": `'[{"op":"add","path":"/spec/allocations/1/podref","value":"default/web-0"}]'`,
		"removal":     `'[{"op":"remove","path":"/spec/allocations/1"}]'`,
		"rangepatch": `'[{"op":"test","path":"/spec/range","value":"10.0.0.0/24"},` +
			`{"op":"replace","path":"/spec/range","value":"10.0.0.0/24"}]'`,
		"reservationpatch":  `'[{"op":"add","path":"/spec/podref","value":"default/web-0"}]'`,
		"badpool.namespace": metav1.NamespaceSystem, "badpool.name": "10.0.0.0-24",
		"badreservation.namespace": metav1.NamespaceSystem, "badreservation.name": "10.0.0.1",
	}
	place := regexp.MustCompile(`\{([a-z.]+)\}`)
	file := "../internal/cli/advice/advice.yaml"
	lines := bufio.NewScanner(strings.NewReader(string(try(os.ReadFile(file)).must(t))))
	tried := map[string]bool{}
	for n := 1; lines.Scan(); n++ {
		_, command, ok := strings.Cut(lines.Text(), " command: ")
		isAssertion := strings.Contains(command, " --override=") // about an item that is Held, which this stage lacks
		if !ok || strings.HasPrefix(strings.TrimSpace(lines.Text()), "#") || tried[command] || isAssertion {
			continue
		}
		tried[command] = true
		command = place.ReplaceAllStringFunc(command, func(name string) string { return names[strings.Trim(name, "{}")] })
		command = strings.ReplaceAll(command, "kubectl ", "kubectl --context=admin ")
		if strings.HasPrefix(command, "ip-reconcile ") {
			command += " --context=admin"
		}
		w.run(t, fmt.Sprintf("%s:%d", file, n), "", command)
	}
	if len(tried) < 40 {
		t.Errorf("only %d commands are advised", len(tried))
	}

	for _, args := range [][]string{
		{"explain", "10.0.0.1"}, {"explain", "pod/default/web-0"}, {"explain", "node/worker-1"},
		{"explain", "pool/10.0.0.0-24"}, {"status"},
	} {
		printed := 0
		out, _ := w.command(t, "ip-reconcile "+strings.Join(args, " ")+" -o json --context admin").Output()
		var document any
		check(t, json.Unmarshal(out, &document))
		for _, command := range printedIn(document) {
			printed++
			contains(t, "a command of "+args[0], command, "--context=admin")
			w.run(t, strings.Join(args, " "), "", command)
		}
		if printed == 0 {
			t.Errorf("%v prints no command:\n%s", args, shortened(string(out)))
		}
	}
}

// printedIn are the commands in a document, wherever they are; except those for a node.
func printedIn(document any) (all []string) {
	switch v := document.(type) {
	case []any:
		for _, e := range v {
			all = append(all, printedIn(e)...)
		}
	case map[string]any:
		for key, e := range v {
			command, _ := e.(string)
			switch {
			case (key == "command" || key == "next") && command != "" && v["onNode"] == nil:
				all = append(all, command)
			default:
				all = append(all, printedIn(e)...)
			}
		}
	}
	return all
}
