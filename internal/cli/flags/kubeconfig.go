package flags

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ip-reconcile/ip-reconcile/internal/version"
)

// ErrNoCluster is the error where no flag, no kubeconfig and no pod names a cluster.
var ErrNoCluster = errors.New("no cluster: without a kubeconfig and outside a pod, give --kubeconfig or --context")

// Config returns the client configuration for the cluster that the flags name. component is the User-Agent's name for
// the program.
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
		o.context = cmp.Or(o.overrides.CurrentContext, raw.CurrentContext)
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

// Context returns the context of the kubeconfig that Config used, "" where it used none.
func (o *Common) Context() string { return o.context }

// kubectlFlag annotates the flags that kubectl has, too, with the same meaning.
const kubectlFlag = "ip-reconcile.dev/kubectl"

// shownOfKubectl are those of kubectl's flags that the help of each command lists. "kubectl options" lists the others.
var shownOfKubectl = []string{"kubeconfig", "context"}

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
		_ = own.SetAnnotation(flag.Name, kubectlFlag, []string{"true"}) // the error is for a flag that does not exist
		flag.Hidden = !slices.Contains(shownOfKubectl, flag.Name)
	})
	f.AddFlagSet(own)
}

// secretsOfKubectl are those of kubectl's flags that no output repeats.
var secretsOfKubectl = []string{"token", "username", "password"}

// VisitKubectl calls visit for each value that was given to a flag of kubectl. It leaves out secrets and URLs with a
// password.
func VisitKubectl(f *pflag.FlagSet, visit func(name, value string)) {
	f.Visit(func(flag *pflag.Flag) {
		if flag.Annotations[kubectlFlag] == nil || slices.Contains(secretsOfKubectl, flag.Name) {
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
