package flags

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/ip-reconcile/ip-reconcile/internal/version"
)

// ErrNoCluster is returned if neither a flag, nor a kubeconfig, nor a pod says which
// cluster it is.
var ErrNoCluster = errors.New("no cluster to look at: no kubeconfig was found and this is no pod; give --kubeconfig")

// Config returns the client configuration for the cluster that the flags name; component
// is what the User-Agent says of the program. An error says which file, context or cluster
// is wrong, and what to give instead.
func (o *Common) Config(component string, qps float32, burst int) (*rest.Config, error) {
	rules := o.loadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &o.overrides).ClientConfig()
	if err != nil {
		return nil, o.explainConfig(rules, err)
	}
	if err := keepHostBare(config); err != nil {
		return nil, err
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

func (o *Common) loadingRules() *clientcmd.ClientConfigLoadingRules {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	rules.Warner = func(error) {} // of a file of KUBECONFIG that is not there: found says so where it matters
	return rules
}

// rawConfig is what the kubeconfig files say, as far as they can be read.
func (o *Common) rawConfig() *api.Config {
	raw, err := o.loadingRules().Load()
	if err != nil {
		return api.NewConfig()
	}
	return raw
}

// explainConfig says of an error of clientcmd what it means to a user.
func (o *Common) explainConfig(rules *clientcmd.ClientConfigLoadingRules, err error) error {
	raw, loadErr := rules.Load()
	if loadErr != nil {
		return fmt.Errorf("kubeconfig: %w: give another with --kubeconfig or KUBECONFIG", loadErr)
	}
	files, contexts := found(rules), slices.Sorted(maps.Keys(raw.Contexts))
	named := o.overrides.CurrentContext
	if named == "" {
		named = raw.CurrentContext
	}
	chosen, there := raw.Contexts[named]
	switch {
	case named == "" && len(contexts) > 0:
		return fmt.Errorf("the kubeconfig %s has no current-context: choose one with --context or 'kubectl config use-context' (%s)", files, some(contexts))
	case named != "" && !there && files == "":
		return fmt.Errorf("there is no context %q: no kubeconfig was found; give --kubeconfig", named)
	case named != "" && !there && o.overrides.CurrentContext != "":
		return fmt.Errorf("--context %q: the kubeconfig %s has no such context%s (%s)", named, files, DidYouMean(named, contexts...), some(contexts))
	case named != "" && !there:
		return fmt.Errorf("the kubeconfig %s has %q as current-context, and no such context: choose one with --context or 'kubectl config use-context' (%s)", files, named, some(contexts))
	case clientcmd.IsEmptyConfig(err) && files == "":
		return ErrNoCluster
	case there && o.overrides.Context.Cluster == "" && raw.Clusters[chosen.Cluster] == nil:
		return fmt.Errorf("the kubeconfig %s has the context %s for the cluster %q, which it does not have: choose another with --context or --cluster", files, named, chosen.Cluster)
	case clientcmd.IsEmptyConfig(err):
		return fmt.Errorf("the kubeconfig %s names no cluster: give another with --kubeconfig", files)
	}
	return fmt.Errorf("kubeconfig %s: %w", files, withoutProxy(err))
}

// found are the kubeconfig files that are there, as a text; "" if there are none.
func found(rules *clientcmd.ClientConfigLoadingRules) string {
	if rules.ExplicitPath != "" {
		return rules.ExplicitPath
	}
	files := slices.DeleteFunc(slices.Clone(rules.Precedence), func(path string) bool {
		_, err := os.Stat(path)
		return err != nil
	})
	return strings.Join(files, ", ")
}

// some is a text with the first few names.
func some(names []string) string {
	const most = 5
	switch {
	case len(names) == 0:
		return "it has none"
	case len(names) > most:
		return fmt.Sprintf("it has %s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return "it has " + strings.Join(names, ", ")
}
