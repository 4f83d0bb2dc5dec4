package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestSysdump_AsksWithManyNodes(t *testing.T) {
	for _, c := range []struct {
		name, reply string
		nodes       int
		asks, want  bool
	}{
		{"few", "n", 20, false, true}, {"many, and yes", "y\n", 21, true, true}, {"many, and no", "\n", 21, true, false},
		{"many, without a terminal", "", 1000, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
			check(t, err)
			defer file.Close()
			std := streams{err: file}
			if c.reply != "" {
				std.in = strings.NewReader(c.reply)
			}
			got := std.continues(t.Context(), c.nodes)
			text, err := os.ReadFile(file.Name())
			asked := strings.HasPrefix(string(text), "The cluster has 21 nodes; the archive gets the logs of ten node agents")
			if got != c.want || asked != c.asks || err != nil {
				t.Errorf("continues %v, want %v, after %q, %v", got, c.want, text, err)
			}
		})
	}
}

// The cause may have names, and nothing else would be in the archive.
func TestSysdump_RedactedWithoutObjects(t *testing.T) {
	path := filepath.Join(t.TempDir(), "renamed.tgz")
	refused(t, []string{"sysdump", path, "--redact-names", "--kubeconfig", kubeconfigOf(t, withoutWhereabouts(t).URL)},
		[]string{"objects: ", "does not serve ippools.whereabouts.cni.cncf.io"})
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("an archive was written: %v", err)
	}
}

func TestSysdump_PrintsTheCommandThatJudgesIt(t *testing.T) {
	calledBy(t, "kubectl-ip_reconcile")
	o := &options{}
	o.addWithoutNode((&cobra.Command{}).Flags(), "error")
	check(t, o.given.Set("agents", "required"))
	for path, want := range map[string]string{"a.tgz": "a.tgz", "-a.tgz": "./-a.tgz", "my dump.tgz": "'my dump.tgz'"} {
		want = "kubectl ip-reconcile check --snapshot " + want + " --all --agents='required'"
		if got := o.checkCommand(path); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
