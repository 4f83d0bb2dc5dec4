package flags_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
	"github.com/ip-reconcile/ip-reconcile/internal/version"
)

func TestConfig_UserAgent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	const text = `{apiVersion: v1, kind: Config, current-context: a,
  contexts: [{name: a, context: {cluster: a}}], clusters: [{name: a, cluster: {server: "https://192.0.2.1"}}]}`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var o flags.Common
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.Add(f, "info")
	if err := f.Set("kubeconfig", path); err != nil {
		t.Fatal(err)
	}
	config, err := o.Config("agent", 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if want := "ip-reconcile/" + version.Get().Version + " (agent)"; config.UserAgent != want {
		t.Errorf("got %q, want %q", config.UserAgent, want)
	}
}
