package flags

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
)

// kubectlFlag annotates the flags that are kubectl's and mean the same as there.
const kubectlFlag = "ip-reconcile.dev/kubectl"

// shownOfKubectl are those of kubectl's flags that the help of each command has. The others are in the help of kubectl.
var shownOfKubectl = []string{"kubeconfig", "context"}

// addKubectl adds kubectl's flags of which cluster it is and who asks (client-go,
// tools/clientcmd/overrides.go), but --namespace, which kubectl has for what it is
// asked about, and --request-timeout, which not every command has.
func (o *Common) addKubectl(f *pflag.FlagSet) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	own.StringVar(&o.kubeconfig, "kubeconfig", "", "path of a kubeconfig file (default: KUBECONFIG, then ~/.kube/config, then the pod's own account)")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ContextOverrideFlags.Namespace.LongName = ""
	names.Timeout.LongName = ""
	names.CurrentContext.Description = "context of the kubeconfig to use"
	clientcmd.BindOverrideFlags(&o.overrides, own, names)
	own.VisitAll(func(flag *pflag.Flag) {
		_ = own.SetAnnotation(flag.Name, kubectlFlag, []string{"true"}) // fails only for a flag that does not exist
		flag.Hidden = !slices.Contains(shownOfKubectl, flag.Name)
	})
	f.AddFlagSet(own)
}

// secretsOfKubectl are those of kubectl's flags that no output repeats.
var secretsOfKubectl = []string{"token", "username", "password"}

// VisitKubectl calls visit for each value of kubectl's own flags that were given, but for
// secrets and URLs with a password.
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
