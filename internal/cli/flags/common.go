// Package flags has the flags that all commands share (Common), those of the commands that inspect their own node
// (Node), and the help that lists flags. It makes clients, loggers and inspectors of them.
package flags

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/border"
	"github.com/ip-reconcile/ip-reconcile/internal/version"
)

// Common are the flags that every command has: which cluster, and how to log.
type Common struct {
	Context             string // of the kubeconfig that Config used; "" where it used none
	kubeconfig          string
	overrides           clientcmd.ConfigOverrides // of the kubeconfig
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
	opts, w := &slog.HandlerOptions{Level: level}, border.Writer(w)
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

// ErrNoCluster is the error where no flag, no kubeconfig and no pod names a cluster.
var ErrNoCluster = errors.New("no cluster: without a kubeconfig and outside a pod, give --kubeconfig or --context")

// podToken is the token of a pod's own account (client-go v0.37.2, rest/config.go, InClusterConfig).
const podToken = "/var/run/secrets/kubernetes.io/serviceaccount/token"

// RunsAsPod reports whether the cluster is this pod's, and is asked by its own account. Any other cluster, and any
// other account, is a person's choice.
func (o *Common) RunsAsPod() bool {
	config, err := o.Config("find", 1, 1)
	return err == nil && config.BearerTokenFile == podToken && config.Impersonate.UserName == ""
}

// Config returns the client configuration of the cluster that the flags name. component is for the User-Agent.
func (o *Common) Config(component string, qps float32, burst int) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	rules.Warner = func(error) {} // of a missing file in KUBECONFIG
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &o.overrides)
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, ErrNoCluster
	}
	if clientcmd.IsConfigurationInvalid(err) && strings.Contains(err.Error(), "proxy-url") { // the URL may have a password
		err = errors.New("proxy-url must be the URL of a proxy, for example http://proxy.example.com:3128")
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w: check --kubeconfig, --context and --cluster", err)
	}
	if strings.Contains(config.Host, "@") { // the URL is printed wherever the server is named
		return nil, errors.New("kubeconfig: the server must be a URL without a user name and a password, " +
			"for example https://api.example.com:6443")
	}
	if raw, err := loader.RawConfig(); err == nil {
		o.Context = cmp.Or(o.overrides.CurrentContext, raw.CurrentContext)
	}
	// A pod's own account leaves these out (client-go v0.37.2, inClusterClientConfig). Without them a request for somebody
	// else would be made as this pod.
	if who := &o.overrides.AuthInfo; who.Impersonate != "" && config.Impersonate.UserName == "" {
		config.Impersonate = rest.ImpersonationConfig{
			UserName: who.Impersonate, UID: who.ImpersonateUID, Groups: who.ImpersonateGroups,
		}
	}
	config.QPS, config.Burst = qps, burst
	config.UserAgent = version.Get().UserAgent(component)
	return config, nil
}

// kubectlFlag annotates the flags that kubectl has, too, with the same meaning.
const kubectlFlag = "ip-reconcile.dev/kubectl"

// addKubectl adds kubectl's flags for the cluster and the user (client-go, tools/clientcmd/overrides.go). It leaves out
// --namespace, which kubectl has for the objects that are asked about, and --request-timeout, which not every command
// has.
func (o *Common) addKubectl(f *pflag.FlagSet) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.StringVar(&o.kubeconfig, "kubeconfig", "",
		"path of a kubeconfig file (default: KUBECONFIG, then ~/.kube/config, then the pod's own account)")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ContextOverrideFlags.Namespace.LongName = ""
	names.Timeout.LongName = ""
	names.CurrentContext.Description = "context of the kubeconfig to use"
	clientcmd.BindOverrideFlags(&o.overrides, own, names)
	own.VisitAll(func(flag *pflag.Flag) {
		_ = own.SetAnnotation(flag.Name, kubectlFlag, []string{"true"})   // the error is for a flag that does not exist
		flag.Hidden = flag.Name != "kubeconfig" && flag.Name != "context" // "kubectl options" lists the others
	})
	f.AddFlagSet(own)
}

// VisitKubectl calls visit for each value given to a flag of kubectl, except secrets and URLs with a password.
func VisitKubectl(f *pflag.FlagSet, visit func(name, value string)) {
	f.Visit(func(flag *pflag.Flag) {
		isSecret := slices.Contains([]string{"token", "username", "password"}, flag.Name)
		if flag.Annotations[kubectlFlag] == nil || isSecret {
			return
		}
		values := []string{flag.Value.String()}
		if several, ok := flag.Value.(pflag.SliceValue); ok {
			values = several.GetSlice()
		}
		for _, value := range values {
			if !strings.Contains(value, "://") || !strings.Contains(value, "@") {
				visit(flag.Name, value)
			}
		}
	})
}
