//go:build slow

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The host alone leads to the page, and the token of the fragment goes along.
func TestUI_TheHostAloneLeadsToThePage(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	_, url := ui(t, "--snapshot", sampleCluster)
	for _, path := range []string{"/#", "/ui#"} {
		b.open(strings.Replace(url, "/ui/#", path, 1) + "#/explain/10.0.0.22")
		b.shows("h1", "Address 10.0.0.22")
		equal(t, "the path after "+path, evaluate[string](b, "location.pathname"), "/ui/")
		equal(t, "the token in the address line", strings.Contains(evaluate[string](b, "location.href"), "token"), false)
	}
}

// A browser is opened where there is a screen, with a file that leads to the page, which is removed in the end.
func TestUI_OpensABrowser(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		screen, flag string
		opens        bool
	}{{"DISPLAY=:7", "--open", true}, {"DISPLAY=:7", "--open=false", false}, {"DISPLAY=", "--open", false}} {
		bin, home := t.TempDir(), t.TempDir()
		script := "#!/bin/sh\ncat \"$1\" > " + bin + "/new && mv " + bin + "/new " + bin + "/opened\n"
		check(t, os.WriteFile(filepath.Join(bin, "xdg-open"), []byte(script), 0o755))
		cmd := exec.Command(shipped.program(t, "ip-reconcile"), "ui", "--snapshot", sampleCluster, x.flag)
		cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + home, x.screen}
		c := start(t, cmd)
		eventually(t, "the address of the page", func() bool { return strings.HasSuffix(c.stdout.String(), "\n") })
		opened := ""
		if x.opens {
			eventually(t, "a browser is opened", func() bool {
				text, _ := os.ReadFile(filepath.Join(bin, "opened"))
				opened = string(text)
				return opened != ""
			})
		}
		check(t, c.cmd.Process.Signal(os.Interrupt))
		check(t, c.cmd.Wait())
		equal(t, "files in the home folder", len(try(os.ReadDir(home)).must(t)), 0)
		equal(t, "what stderr has", c.stderr.String(), "")
		_, err := os.Stat(filepath.Join(bin, "opened"))
		equal(t, "a browser is opened with "+x.screen+" "+x.flag, err == nil, x.opens)
		if x.opens && !strings.Contains(opened, "url="+strings.TrimSpace(c.stdout.String())+`"`) {
			t.Errorf("the browser is led elsewhere: %s", opened)
		}
	}
}
