// Package flags has the flags that all commands share (Common), those of the commands that inspect their own node
// (Node), and the help that lists flags. It makes clients, loggers and inspectors of them. kubeconfig.go has kubectl's
// own flags.
package flags

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// Common are the flags that every command has: which cluster, and how to log.
type Common struct {
	kubeconfig          string
	overrides           clientcmd.ConfigOverrides // of the kubeconfig
	context             string                    // which Config used
	namespace           string                    // --reconciler-namespace
	leaseNamespace      string
	logLevel, logFormat string
}

// Add adds the flags. logLevel is the default of --log-level.
func (o *Common) Add(f *pflag.FlagSet, logLevel string) {
	o.addKubectl(f)
	f.StringVar(&o.namespace, "reconciler-namespace", "",
		"namespace of the reconciler, whose annotation pauses all releases (default: the pod's own, or kube-system)")
	f.StringVar(&o.leaseNamespace, "lease-namespace", "ip-reconcile-node-lease",
		"namespace of the node agents' Leases; agents may write there, so nothing else should be in it")
	f.StringVar(&o.logLevel, "log-level", logLevel, "debug, info, warn or error")
	f.StringVar(&o.logFormat, "log-format", "text", "text or json")
}

// DropClientLogs drops the log lines of client-go, which repeat those of this program. Call it before the first
// request: klog has one logger for the process.
func DropClientLogs() { klog.SetLogger(klog.New(nil)) }

// Logger returns the logger that the flags ask for.
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

// LeaseNamespace returns the namespace of the node agents' Leases.
func (o *Common) LeaseNamespace() string { return o.leaseNamespace }

// Namespace returns the reconciler's namespace: that of the flag, else the pod's own, else kube-system.
func (o *Common) Namespace() string {
	if o.namespace != "" {
		return o.namespace
	}
	if text, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace"); err == nil {
		return strings.TrimSpace(string(text))
	}
	return "kube-system"
}
