package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// common are the flags that every command has: which cluster, and how to log.
type common struct {
	kubeconfig, context, namespace string
	logLevel, logFormat            string
}

func (o *common) add(f *pflag.FlagSet, logLevel string) {
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "path of a kubeconfig file (default: KUBECONFIG, then ~/.kube/config, then the pod's own account)")
	f.StringVar(&o.context, "context", "", "context of the kubeconfig to use")
	f.StringVar(&o.namespace, "namespace", "", "the reconciler's own namespace, where the node agents' Leases are (default: the pod's, else kube-system)")
	f.StringVar(&o.logLevel, "log-level", logLevel, "debug, info, warn or error")
	f.StringVar(&o.logFormat, "log-format", "text", "text or json")
}

func (o *common) restConfig(qps float32, burst int) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.context}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("no cluster to look at: no kubeconfig was found and this is no pod; give --kubeconfig, or --snapshot for exported files")
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	config.QPS, config.Burst = qps, burst
	config.UserAgent = "ip-reconcile"
	return config, nil
}

func (o *common) logger(w io.Writer) (*slog.Logger, error) {
	klog.SetLogger(klog.New(nil)) // client-go's own lines repeat what we say better
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

// ownNamespace is where the reconciler and the node agents live.
func (o *common) ownNamespace() string {
	if o.namespace != "" {
		return o.namespace
	}
	if text, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace"); err == nil {
		return strings.TrimSpace(string(text))
	}
	return "kube-system"
}

func (o *common) completions(c *cobra.Command) {
	complete(c, "log-level", "debug", "info", "warn", "error")
	complete(c, "log-format", "text", "json")
}
