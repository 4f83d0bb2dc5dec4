package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what the command lines of testdata print")

// writeInputs writes the files that the command lines of testdata/refusals.txt name.
func writeInputs(t *testing.T, dir string) {
	t.Helper()
	const config = `{apiVersion: v1, kind: Config, current-context: lab,
  contexts: [{name: lab, context: {cluster: lab, user: me}}, {name: production, context: {cluster: lab, user: me}}],
  clusters: [{name: lab, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: me, user: {token: secret}}]}`
	for name, text := range map[string]string{
		"config":       config,
		"no-current":   strings.Replace(config, "current-context: lab", `current-context: ""`, 1),
		"gone-current": strings.Replace(config, "current-context: lab", `current-context: gone`, 1),
		"gone-cluster": strings.Replace(config, "cluster: lab, user", `cluster: gone, user`, 1),
		"garbage":      "\x7fELF, no YAML: [",
		"empty":        " \n",
		"boot_id":      "boot-1\n",
		"bare/.keep":   "",

		"dump.zip":    "PK\x03\x04\x14\x00",
		"dump.xz":     "\xfd7zXZ\x00\x00",
		"utf16.txt":   "1\x000\x00.\x000\x00",
		"k8s.log":     `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata"}` + "\n",
		"nothing":     "",
		"text.yaml":   "text\n",
		"number.yaml": "apiVersion: 5\n",
		"bom.txt":     "\xef\xbb\xbf10.0.0\n",

		"not-yaml/notes.yaml": "kind: Pod\na: [1, 2\nb: }\n",
	} {
		check(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		write(t, filepath.Join(dir, name), text)
	}
}

// Each command line of testdata/refusals.txt is refused by one line on stderr, which stands below it.
func TestRefusals(t *testing.T) {
	const golden = "testdata/refusals.txt"
	dir := t.TempDir()
	writeInputs(t, dir)
	for name, value := range map[string]string{"NODE_NAME": "", "POD_UID": "", "KUBERNETES_SERVICE_HOST": "",
		"KUBECONFIG": filepath.Join(dir, "nowhere")} {
		t.Setenv(name, value)
	}
	agent := "agent --kubeconfig $DIR/config --node worker-1 --outside-pod --cri $DIR/cri.sock --boot-id-file " +
		"$DIR/boot_id --metrics-bind-address 0"
	given := strings.NewReplacer("$AGENT", strings.ReplaceAll(agent, "$DIR", dir), "$DIR", dir, "$SAMPLE", sample)
	printed := strings.NewReplacer(dir, "$DIR", sample, "$SAMPLE")
	text, err := os.ReadFile(golden)
	check(t, err)
	var got strings.Builder
	for line := range strings.Lines(string(text)) {
		command, isCommand := strings.CutPrefix(line, "$ ip-reconcile ")
		if isCommand || strings.HasPrefix(line, "#") || line == "\n" {
			got.WriteString(line)
		}
		if !isCommand {
			continue
		}
		args := strings.Fields(given.Replace(command))
		for i, arg := range args {
			args[i] = strings.ReplaceAll(arg, "''", "")
		}
		code, out, errs := run(t, args...)
		if code != exitFailed || out != "" || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", command, code, out, errs)
		}
		got.WriteString(printed.Replace(errs))
	}
	if *update {
		write(t, golden, got.String())
	} else if got.String() != string(text) {
		t.Errorf("they print (see with -update and git diff):\n%s", got.String())
	}
}
