//go:build !slow && !cluster

package e2e

import (
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
	"sigs.k8s.io/yaml"
)

// notRunHere are programs that the documents call and that a test cannot run, with the reason.
var notRunHere = map[string]string{
	"crictl":     "needs a node's container runtime",
	"systemctl":  "needs a node's systemd",
	"journalctl": "needs a node's systemd",
	"docker":     "builds and pushes images",
	"skopeo":     "pushes images",
	"cosign":     "signs with an account",
	"gh":         "publishes a release",
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

// A workplace is a folder with the repository's manifests, from which commands are run as a user runs them. The scripts
// of testdata/bin stand for the programs that commands call. They do not wait for a kubelet or a controller, and they
// leave the objects as they are for the next command. What they do not run leaves the file unrun.
type workplace struct {
	folder string
	env    []string
}

func (s *stage) workplace(t *testing.T, kubeconfig string) *workplace {
	t.Helper()
	w := &workplace{folder: t.TempDir()}
	bin := t.TempDir()
	check(t, os.CopyFS(bin, os.DirFS("testdata/bin")))
	for name := range notRunHere {
		check(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n: >\"$HOME/unrun\"\n"), 0o755))
	}
	for _, name := range tools {
		check(t, os.Symlink(try(exec.LookPath(name)).must(t), filepath.Join(bin, name)))
	}
	for _, name := range []string{"deploy", "samples"} {
		check(t, os.CopyFS(filepath.Join(w.folder, name), os.DirFS("../"+name)))
	}
	check(t, os.Mkdir(filepath.Join(w.folder, "e2e"), 0o755))
	check(t, os.Symlink(bin, filepath.Join(w.folder, "bin"))) // what make build has made
	check(t, os.MkdirAll(filepath.Join(w.folder, "mine"), 0o755))
	check(t, os.WriteFile(filepath.Join(w.folder, "addresses.txt"), []byte("10.0.0.99\n"), 0o644))
	nad := try(os.ReadFile("../cmd/ip-reconcile/testdata/nad.yaml")).must(t)
	check(t, os.WriteFile(filepath.Join(w.folder, "nad.yaml"), nad, 0o644))
	mine := "resources: [../deploy/deployment-with-agent]\n"
	check(t, os.WriteFile(filepath.Join(w.folder, "mine", "kustomization.yaml"), []byte(mine), 0o644))
	w.env = []string{
		"PATH=" + bin, "HOME=" + w.folder, "KUBECONFIG=" + kubeconfig, "KUBEPARTS=" + s.KubectlProgram(),
		"PROGRAMS=" + try(shipped()).must(t), "MAKE=" + try(exec.LookPath("make")).must(t),
		"REPOSITORY=" + try(filepath.Abs("..")).must(t),
	}
	return w
}

// hasRun reports whether all programs of the last command have run.
func (w *workplace) hasRun() bool { return os.Remove(filepath.Join(w.folder, "unrun")) != nil }

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
	case "uninstall", "list", "status", "history", "rollback", "get", "push", "test":
		return nil
	default:
		return fmt.Errorf("helm has no command %q that is known here", f.Arg(0))
	}
	if chart := f.Arg(f.NArg() - 1); chart != "deploy/helm/ip-reconcile" && chart != publishedChart {
		return fmt.Errorf("the chart is deploy/helm/ip-reconcile or %s, not %q", publishedChart, chart)
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
