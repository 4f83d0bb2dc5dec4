package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// commandsUnder are the commands under a heading of a page that have these parts. "" is the page's head.
func commandsUnder(t testing.TB, page, heading string, parts ...string) (all []string) {
	t.Helper()
	sections := strings.Split(string(try(os.ReadFile("../"+page)).must(t)), "\n## ")
	sections[0] = "\n" + sections[0]
	for _, section := range sections {
		if title, _, _ := strings.Cut(section, "\n"); title != heading {
			continue
		}
		for _, c := range commandsOf(page, section) {
			if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(c.text, part) }) {
				all = append(all, c.text)
			}
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s has no command under %q with %q", page, heading, parts)
	}
	return all
}

// enter types commands in a folder with deploy, with the admin's kubectl.
func (s *stage) enter(t testing.TB, folder string, commands ...string) {
	t.Helper()
	bin := t.TempDir()
	for _, name := range []string{"kubectl", "oc"} {
		script := fmt.Sprintf("#!/bin/sh\nexec %s kubectl \"$@\"\n", s.KubectlProgram())
		check(t, os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755))
	}
	for _, command := range commands {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		cmd.Dir = folder
		cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + bin, "KUBECONFIG=" + s.Kubeconfig()}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
}
