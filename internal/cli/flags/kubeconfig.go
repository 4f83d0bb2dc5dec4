package flags

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

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
