//go:build !slow && !cluster

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"helm.sh/helm/v4/pkg/strvals"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// notRunHere are programs that the documents call and that a test cannot run, with the reason.
var notRunHere = map[string]string{
	"crictl":     "needs a node's container runtime",
	"systemctl":  "needs a node's systemd",
	"journalctl": "needs a node's systemd",
	"docker":     "builds and pushes images",
	"git":        "clones from the internet",
	"go":         "runs tests for minutes",
	"ln":         "writes into folders of the machine",
	"sudo":       "changes the machine",
	"curl":       "downloads from the internet",
	"etcdctl":    "needs etcd's machine",
}

// skipped are pages whose commands are not run here, with the reason.
var skipped = map[string]string{
	"docs/operate/tickets.md":    "another test runs each command and writes the page",
	"docs/reference/commands.md": "is generated from the help of the commands",
}

// tools are the programs of the machine that commands may use.
var tools = []string{
	"sh", "cat", "grep", "sed", "awk", "cut", "sort", "head", "tail", "wc", "tr", "xargs", "tar", "gzip", "mkdir", "cp",
	"date", "sleep", "base64",
}

// wrappers stand for the programs that commands call. They do not wait for a kubelet or a controller,
// and they leave the objects as they are for the next command.
var wrappers = map[string]string{
	"kubectl": `
verb=
for word; do
	case $word in
	get|apply|create|delete|annotate|label|taint|patch|scale|set|replace|cordon|uncordon|logs|exec|\
	port-forward|debug|wait|rollout|top|drain)
		verb=${verb:-$word} ;;
	--watch|-w) watch=--watch=false ;;
	esac
done
case $verb in
logs|exec|port-forward|debug|wait|rollout|top|drain) exec "$KUBEPARTS" kubectl "$@" --help ;;
delete|annotate|label|taint|patch|scale|set|replace|cordon|uncordon) set -- "$@" --dry-run=server ;;
get) set -- "$@" $watch ;;
esac
exec 3>&1
errors=$("$KUBEPARTS" kubectl "$@" 2>&1 >&3)
code=$?
echo "$errors" >&2
case $errors in *"already exists"*|*"already has a value"*|*taint*"not found"*) code=0 ;; esac
exit $code`,
	"oc": `
[ "$1" != adm ] || exit 0
exec kubectl "$@"`,
	"ip-reconcile": `
case "$*" in serve*|agent*|recover*--yes*) set -- "$@" --help ;; esac
"$PROGRAMS/ip-reconcile" "$@"
code=$?
[ $code -le 1 ] || exit $code`,
	"kubectl-ip_reconcile": `exec ip-reconcile "$@"`,
	"ip-reconcile-agent":   `exec "$PROGRAMS/ip-reconcile-agent" "$@" --help`,
	"ip-reconciler":        `exec "$PROGRAMS/ip-reconciler" "$@" --help`,
	"make":                 `exec "$MAKE" -n -C "$REPOSITORY" "$@"`,
	"helm": `
for word; do printf '%s\0' "$word"; done >>helm.calls
printf '\1' >>helm.calls`,
}

// A pageCommand is a command of a page, with the place where it begins.
type pageCommand struct {
	place, text string
}

var (
	remark     = regexp.MustCompile(` # .*`)
	inline     = regexp.MustCompile("`((?:kubectl|oc|ip-reconcile) [a-z-]+ [^`]+)`")
	heredoc    = regexp.MustCompile(`<<-?\s*'?(\w+)'?`)
	assignment = regexp.MustCompile(`^(export )?[A-Z_]+=\S+$`)
	program    = regexp.MustCompile(`^(\$ )?(kubectl|helm|oc|ip-reconcile|ip-reconciler|ip-reconcile-agent|` +
		`make|mkdir|cd|for|crictl|systemctl|journalctl|docker|git|go|ln|sudo|curl) `)
)

// commandsOf are the commands in a page's blocks: all lines of sh, those after "$ " of console, and in
// blocks without a language those that begin with a program.
func commandsOf(page, text string) (all []pageCommand) {
	fenced, language, indent := false, "", ""
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line, bare := lines[i], strings.TrimSpace(lines[i])
		if after, ok := strings.CutPrefix(bare, "```"); ok {
			fenced, language, indent = !fenced, after, line[:len(line)-len(strings.TrimLeft(line, " "))]
			continue
		}
		line = strings.TrimPrefix(line, indent)
		if !fenced && !strings.HasPrefix(line, "    ") {
			for _, span := range inline.FindAllStringSubmatch(line, -1) {
				all = append(all, pageCommand{fmt.Sprintf("%s:%d", page, i+1), strings.ReplaceAll(span[1], `\|`, "|")})
			}
		}
		switch {
		case bare == "" || strings.HasPrefix(bare, "#"):
			continue
		case fenced && (language == "sh" || language == "bash" || language == "shell"):
		case fenced && language == "console":
			if !strings.HasPrefix(bare, "$ ") {
				continue
			}
		case fenced && language != "", !program.MatchString(bare), !fenced && !strings.HasPrefix(line, "    "):
			continue
		}
		margin := indent
		if !fenced {
			margin = "    "
		}
		c := pageCommand{fmt.Sprintf("%s:%d", page, i+1), strings.TrimPrefix(bare, "$ ")}
		for i+1 < len(lines) && (strings.HasSuffix(c.text, `\`) || strings.Count(remark.ReplaceAllString(c.text, ""),
			"'")%2 == 1) {
			i++
			c.text += "\n" + lines[i]
		}
		if end := heredoc.FindStringSubmatch(c.text); end != nil {
			for i++; i < len(lines) && strings.TrimSpace(lines[i]) != end[1]; i++ {
				c.text += "\n" + strings.TrimPrefix(lines[i], margin)
			}
			c.text += "\n" + end[1]
		}
		all = append(all, c)
	}
	return all
}

// pages are the documents for users, by path.
func pages(t *testing.T) (all map[string]string) {
	t.Helper()
	all = map[string]string{"README.md": string(try(os.ReadFile("../README.md")).must(t))}
	for _, folder := range []string{"docs", "deploy"} {
		check(t, fs.WalkDir(os.DirFS(".."), folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".md" || skipped[path] != "" {
				return err
			}
			text, err := os.ReadFile("../" + path)
			all[path] = string(text)
			return err
		}))
	}
	return all
}

// A workplace is a folder with the repository's manifests, from which commands are run as a user runs them.
type workplace struct {
	folder string
	env    []string
}

func (s *stage) workplace(t *testing.T, kubeconfig string) *workplace {
	t.Helper()
	w := &workplace{folder: t.TempDir()}
	bin := t.TempDir()
	for name, script := range wrappers {
		check(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	for name := range notRunHere {
		check(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"), 0o755))
	}
	for _, name := range tools {
		check(t, os.Symlink(try(exec.LookPath(name)).must(t), filepath.Join(bin, name)))
	}
	for _, name := range []string{"deploy", "samples"} {
		check(t, os.CopyFS(filepath.Join(w.folder, name), os.DirFS("../"+name)))
	}
	check(t, os.Mkdir(filepath.Join(w.folder, "e2e"), 0o755))
	check(t, os.MkdirAll(filepath.Join(w.folder, "mine"), 0o755))
	mine := "resources: [../deploy/deployment-with-agent]\n"
	check(t, os.WriteFile(filepath.Join(w.folder, "mine", "kustomization.yaml"), []byte(mine), 0o644))
	w.env = []string{
		"PATH=" + bin, "HOME=" + w.folder, "KUBECONFIG=" + kubeconfig, "KUBEPARTS=" + s.KubectlProgram(),
		"PROGRAMS=" + try(shipped()).must(t), "MAKE=" + try(exec.LookPath("make")).must(t),
		"REPOSITORY=" + try(filepath.Abs("..")).must(t),
	}
	return w
}

// run runs a command, after assignments of variables.
func (w *workplace) run(t *testing.T, place, assignments, command string) {
	t.Helper()
	if strings.Contains(command, "<") && regexp.MustCompile(`<[a-z][a-z -]*>`).MatchString(command) {
		t.Errorf("%s: %q has a placeholder that a shell takes for a redirection", place, command)
		return
	}
	out, err := w.command(t, assignments+command).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %q: %v\n%s", place, command, err, shortenedTo(600, string(out)))
	}
	calls, err := os.ReadFile(filepath.Join(w.folder, "helm.calls"))
	if err != nil {
		return
	}
	check(t, os.Remove(filepath.Join(w.folder, "helm.calls")))
	for call := range strings.SplitSeq(strings.TrimSuffix(string(calls), "\x01"), "\x01") {
		if err := w.helm(strings.Split(strings.TrimSuffix(call, "\x00"), "\x00")); err != nil {
			t.Errorf("%s: %q: %v", place, command, err)
		}
	}
}

func (w *workplace) command(t *testing.T, command string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Dir, cmd.Env, cmd.WaitDelay = w.folder, w.env, time.Second
	return cmd
}

// helm checks the flags of a call of helm, and renders the chart with its values.
func (w *workplace) helm(args []string) error {
	f := pflag.NewFlagSet("helm", pflag.ContinueOnError)
	namespace := f.StringP("namespace", "n", "default", "")
	sets, files := f.StringArray("set", nil, ""), f.StringArrayP("values", "f", nil, "")
	texts := f.StringArray("set-string", nil, "")
	f.String("version", "", "")
	f.String("show-only", "", "")
	for _, name := range []string{"install", "reuse-values", "reset-then-reuse-values", "create-namespace", "wait",
		"dry-run", "take-ownership"} {
		f.BoolP(name, map[string]string{"install": "i"}[name], false, "")
	}
	if err := f.Parse(args); err != nil {
		return err
	}
	switch f.Arg(0) {
	case "install", "upgrade", "template", "lint":
	case "uninstall", "list", "status", "history", "rollback", "get":
		return nil
	default:
		return fmt.Errorf("helm has no command %q that is known here", f.Arg(0))
	}
	if chart := f.Arg(f.NArg() - 1); filepath.Clean(chart) != "deploy/helm/ip-reconcile" {
		return fmt.Errorf("the chart is deploy/helm/ip-reconcile, not %q", chart)
	}
	values := map[string]any{}
	for _, file := range *files {
		text, err := os.ReadFile(filepath.Join(w.folder, file))
		if err != nil {
			return err
		}
		if err := yaml.Unmarshal(text, &values); err != nil {
			return err
		}
	}
	for _, set := range slices.Concat(*sets, *texts) {
		if err := strvals.ParseInto(set, values); err != nil {
			return err
		}
	}
	text, err := yaml.Marshal(values)
	if err == nil {
		_, err = helm(*namespace, string(text))
	}
	return err
}

// calico is the CRD of Calico whose plural is whereabouts', too.
const calico = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ippools.crd.projectcalico.org}
spec:
  group: crd.projectcalico.org
  scope: Cluster
  names: {kind: IPPool, listKind: IPPoolList, plural: ippools, singular: ippool}
  versions: [{name: v1, served: true, storage: true, schema: {
    openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

// named are objects that documents and advice name: the leader's Lease, and workloads of other versions of whereabouts
// and of OpenShift.
const named = `
apiVersion: v1
kind: Namespace
metadata: {name: openshift-multus}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: ip-reconcile, namespace: kube-system}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: whereabouts-reconciler, namespace: openshift-multus}
spec:
  selector: {matchLabels: {app: whereabouts}}
  template:
    metadata: {labels: {app: whereabouts}}
    spec: {containers: [{name: whereabouts, image: e2e.invalid/none}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: whereabouts-reconciler, namespace: kube-system}
spec:
  selector: {matchLabels: {app: whereabouts-reconciler}}
  template:
    metadata: {labels: {app: whereabouts-reconciler}}
    spec: {containers: [{name: whereabouts-reconciler, image: e2e.invalid/none}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: ip-reconciler, namespace: kube-system}
spec:
  schedule: "0 4 * * *"
  jobTemplate: {spec: {template: {spec: {
    restartPolicy: Never, containers: [{name: whereabouts, image: e2e.invalid/none}]}}}}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: ip-reconcile, namespace: kube-system}
spec:
  schedule: "0 4 * * *"
  jobTemplate: {spec: {template: {spec: {
    restartPolicy: Never, containers: [{name: ip-reconcile, image: e2e.invalid/none}]}}}}
`

// newCommandStage is a stage with what documents and advice name: the installed product, whereabouts, pods
// of the network 10.0.0.0/24, and Calico's CRD.
func newCommandStage(t *testing.T) *stage {
	t.Helper()
	s := newStageWithReports(t, "worker-1", "worker-2", "worker-4")
	s.applied(t, "../deploy/deployment-with-agent")
	s.mustKubectl(t, "apply", "-f", "../deploy/namespace/namespace.yaml")
	s.mustKubectl(t, "apply", "-f", harness.UpstreamManifest(t, "daemonset-install.yaml"))
	file := filepath.Join(t.TempDir(), "objects.yaml")
	check(t, os.WriteFile(file, []byte(named+"---"+calico), 0o644))
	s.mustKubectl(t, "apply", "-f", file)
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
	"ADDRESS": "10.0.0.1",
	"POOL":    "10.0.0.0-24", "TIME": "2026-11-20T10:00:00Z",
}

var capital = regexp.MustCompile(`(^|[^$A-Z_{-])([A-Z]{2,})\b`)

func TestCommands_EachOfTheDocumentsRuns(t *testing.T) {
	t.Parallel()
	s := newCommandStage(t)
	kubeconfig := s.twoContexts(t, "admin")
	n := 0
	for page, text := range pages(t) {
		t.Run(page, func(t *testing.T) {
			w, assignments := s.workplace(t, kubeconfig), ""
			for _, c := range commandsOf(page, text) {
				if assignment.MatchString(c.text) {
					assignments += c.text + "\n"
					continue
				}
				n++
				w.run(t, c.place, assignments, capital.ReplaceAllStringFunc(c.text, func(found string) string {
					parts := capital.FindStringSubmatch(found)
					if value := capitals[parts[2]]; value != "" {
						return parts[1] + value
					}
					return found
				}))
			}
		})
	}
	if n < 50 {
		t.Errorf("the documents have only %d commands", n)
	}
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
	kubeconfig := s.twoContexts(t, "other")
	w := s.workplace(t, kubeconfig)
	names := map[string]string{
		"pod.namespace": "default", "pod.name": "web-0", "otherpod": "default/web-1", "namespace": metav1.NamespaceSystem,
		"ip": "10.0.0.1", "pool": "10.0.0.0-24", "pool.namespace": metav1.NamespaceSystem, "pool.name": "10.0.0.0-24",
		"inpool": "--pool=10.0.0.0-24", "reservation.namespace": metav1.NamespaceSystem, "reservation.name": "10.0.0.1",
		"node": "worker-1", "downnode": "worker-2", "container": noID, "othercontainer": noID,
		"restored": "2026-11-20T10:00:00Z",
	}
	place := regexp.MustCompile(`\{([a-z.]+)\}`)
	file := "../internal/cli/advice/advice.yaml"
	lines := bufio.NewScanner(strings.NewReader(string(try(os.ReadFile(file)).must(t))))
	tried := map[string]bool{}
	for n := 1; lines.Scan(); n++ {
		_, command, ok := strings.Cut(lines.Text(), " command: ")
		if !ok || strings.HasPrefix(strings.TrimSpace(lines.Text()), "#") || tried[command] {
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
