// Package flags has the command-line flags that all commands share (Common: which cluster,
// how to log) and those of the commands that inspect the node on which they run (Node), and
// makes of them clients, loggers and inspectors. kubectl.go has kubectl's own flags.
package flags

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// Common are the flags that every command has: which cluster, and how to log.
type Common struct {
	kubeconfig          string
	overrides           clientcmd.ConfigOverrides // of the kubeconfig
	namespace           string                    // by --reconciler-namespace
	leaseNamespace      string
	logLevel, logFormat string
}

// Add adds the flags, with the log level that is the default.
func (o *Common) Add(f *pflag.FlagSet, logLevel string) {
	o.addKubectl(f)
	f.StringVar(&o.namespace, "reconciler-namespace", "", "the reconciler's own namespace, whose annotation pauses everything (default: the pod's, else kube-system)")
	f.StringVar(&o.leaseNamespace, "lease-namespace", "ip-reconcile-node-lease", "namespace of the node agents' Leases; nothing else should be in it, since agents may write there")
	f.StringVar(&o.logLevel, "log-level", logLevel, "debug, info, warn or error")
	f.StringVar(&o.logFormat, "log-format", "text", "text or json")
}

// DropClientLogs drops client-go's own lines, which repeat what we say better. It is for the
// beginning of a program: klog has one logger for the process, and requests read it.
func DropClientLogs() { klog.SetLogger(klog.New(nil)) }

// Logger makes the logger that the flags ask for.
func (o *Common) Logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return nil, fmt.Errorf("--log-level %q: must be debug, info, warn or error", o.logLevel)
	}
	opts := &slog.HandlerOptions{Level: level}
	switch o.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, fmt.Errorf("--log-format %q: must be text or json", o.logFormat)
}

// LeaseNamespace is where the node agents' Leases are, wherever agents and reconciler
// run: neither needs to be told where the other is.
func (o *Common) LeaseNamespace() string { return o.leaseNamespace }

// Namespace is the reconciler's own: by the flag, else the pod's, else kube-system.
func (o *Common) Namespace() string {
	if o.namespace != "" {
		return o.namespace
	}
	if text, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace"); err == nil {
		return strings.TrimSpace(string(text))
	}
	return "kube-system"
}

// Completions completes the flags in a shell.
func (o *Common) Completions(c *cobra.Command) {
	Complete(c, "log-level", "debug", "info", "warn", "error")
	Complete(c, "log-format", "text", "json")
}

// Complete gives a flag's values to a shell.
func Complete(c *cobra.Command, flag string, values ...string) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // fails only for a flag that does not exist
}
