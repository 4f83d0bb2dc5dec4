package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// k9sVariable is what k9s replaces in an argument (k9s v0.50, internal/view/env.go).
var k9sVariable = regexp.MustCompile(`\$(!?[\w-]+)`)

type k9sPlugin struct {
	ShortCut, Description, Command string
	Scopes, Args                   []string
	Confirm, Dangerous             bool
}

// k9sPlugins reads the file strictly: k9s rejects what it does not know.
func k9sPlugins(t *testing.T) map[string]k9sPlugin {
	t.Helper()
	text, err := os.ReadFile("../../deploy/k9s/plugins.yaml")
	check(t, err)
	var file struct{ Plugins map[string]k9sPlugin }
	check(t, yaml.UnmarshalStrict(text, &file))
	return file.Plugins
}

// TestK9s_Plugins runs each plugin as k9s does, with a program that records its arguments, and parses those as the
// command does.
func TestK9s_Plugins(t *testing.T) {
	values := map[string]string{"$NAMESPACE": "default", "$NAME": "a-1", "$CONTEXT": `it's "$(touch x)"`}
	bin := t.TempDir()
	for name, text := range map[string]string{"ip-reconcile": "printf '%s\\n' \"$@\"", "less": "cat"} {
		write(t, filepath.Join(bin, name), "#!/bin/sh\n"+text+"\n")
		check(t, os.Chmod(filepath.Join(bin, name), 0o700))
	}
	var found []string
	for name, p := range k9sPlugins(t) {
		args := slices.Clone(p.Args)
		for i := range args {
			args[i] = k9sVariable.ReplaceAllStringFunc(args[i], func(v string) string {
				if values[v] == "" {
					t.Errorf("%s: k9s has no variable %s for this view", name, v)
				}
				return values[v]
			})
		}
		c := exec.Command(p.Command, args...)
		c.Env, c.Dir = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}, bin
		c.Stdin = strings.NewReader("\n")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		words := strings.Split(strings.TrimSuffix(strings.TrimSpace(string(out)), "\nPress Enter."), "\n")
		at := slices.Index(words, "--context")
		if at < 0 || words[at+1] != values["$CONTEXT"] {
			t.Errorf("%s: the context is not that of k9s: %q", name, words)
			continue
		}
		command, rest, err := newRoot(terminal()).Find(words)
		if err == nil {
			err = command.ParseFlags(rest)
		}
		if err == nil && command.Args != nil {
			err = command.Args(command, command.Flags().Args())
		}
		if err != nil {
			t.Errorf("%s: %q: %v", name, words, err)
		}
		writes := !strings.HasSuffix(command.Short, "read-only")
		if p.Confirm != writes || p.Dangerous != writes || slices.Contains(words, "--yes") || len(p.Scopes) != 1 {
			t.Errorf("%s: %+v", name, p)
		}
		if isPaged := strings.Contains(p.Args[1], "| less"); isPaged == writes {
			t.Errorf("%s: paged is %v", name, isPaged)
		}
		found = append(found, p.Scopes[0]+" "+p.ShortCut+" "+command.Name())
	}
	slices.Sort(found)
	if want := "ippools Shift-E explain,ippools Shift-L run,nodes Shift-E explain,nodes Shift-L release," +
		"pods Shift-E explain,pods Shift-L release"; strings.Join(found, ",") != want {
		t.Errorf("the plugins are %q", found)
	}
	if _, err := os.Stat(filepath.Join(bin, "x")); err == nil {
		t.Error("a shell has parsed the name of the context")
	}
}
