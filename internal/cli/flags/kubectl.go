package flags

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
)

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
