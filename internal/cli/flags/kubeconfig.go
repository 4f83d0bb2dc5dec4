package flags

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ip-reconcile/ip-reconcile/internal/version"
)

// ErrNoCluster is returned if neither a flag, nor a kubeconfig, nor a pod says which
// cluster it is.
var ErrNoCluster = errors.New("no cluster to look at: no kubeconfig names one and this is no pod; give --kubeconfig or --context")

// Config returns the client configuration for the cluster that the flags name; component
// is what the User-Agent says of the program.
func (o *Common) Config(component string, qps float32, burst int) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	rules.Warner = func(error) {} // of a file of KUBECONFIG that is not there
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &o.overrides).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, ErrNoCluster
	}
	if clientcmd.IsConfigurationInvalid(err) && strings.Contains(err.Error(), "proxy-url") { // which may have a password
		err = errors.New("its proxy-url is no URL of a proxy, as http://proxy.example.com:3128")
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w: check --kubeconfig, --context and --cluster", err)
	}
	if strings.Contains(config.Host, "@") { // the URL is printed wherever the server is named
		return nil, errors.New("kubeconfig: the server must be a URL as https://api.example.com:6443, without a user name and a password")
	}
	// A pod's own account leaves these out (client-go v0.37.2, inClusterClientConfig): whoever
	// asks as somebody else is not to be answered as this pod.
	if who := &o.overrides.AuthInfo; who.Impersonate != "" && config.Impersonate.UserName == "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: who.Impersonate, UID: who.ImpersonateUID, Groups: who.ImpersonateGroups}
	}
	config.QPS, config.Burst = qps, burst
	config.UserAgent = version.Get().UserAgent(component)
	return config, nil
}
