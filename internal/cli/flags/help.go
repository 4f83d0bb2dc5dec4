package flags

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/suggest"
)

// firstFlags are the flags that the help of each command lists first, at most 15 with --help. All others are advanced.
// A command that is not named here has no advanced flags.
var firstFlags = map[string]string{
	"check": "address all context fail-on kubeconfig now on-node output pod-namespace pool reason snapshot verdict watch",
	"run": "address confirm-after context dry-run fail-on kubeconfig output pod-namespace pool proven-only " +
		"reason repair snapshot yes",
	"release":      "because context dry-run kubeconfig on-node output override pod snapshot yes",
	"plan":         "address context kubeconfig on-node output output-file pod-namespace pool reason",
	"apply":        "context filename kubeconfig max-age output yes",
	"explain":      "confirm-after context filename kubeconfig now output reconciler-namespace snapshot",
	"pools":        "confirm-after context kubeconfig no-headers now output snapshot unused watch",
	"pools check":  "add context definition exclude kubeconfig new-range now output range-end range-start snapshot surge",
	"pools retire": "context dry-run kubeconfig output slices-without-node snapshot yes",
	"recover":      "context dry-run kubeconfig output snapshot yes",
	"status":       "context kubeconfig output reconciler-namespace",
	"sysdump":      "context kubeconfig output reconciler-namespace redact-names",
	"history":      "context filename kubeconfig no-headers output reconciler-namespace since verify",
	"serve": "agents confirm-after context cron fence-timeout health-probe-bind-address kubeconfig leader-elect " +
		"log-level metrics-bind-address repair ui",
	"ui":    "context kubeconfig now open port reconciler-namespace snapshot",
	"agent": "context cri kubeconfig log-level metrics-bind-address node outside-pod",
}

// IsAdvanced reports whether the help of a command lists a flag among the advanced ones.
func IsAdvanced(c *cobra.Command, f *pflag.Flag) bool {
	name := strings.TrimPrefix(c.Name(), "ip-reconcile-")
	if c.HasParent() && c.Parent().HasParent() {
		name = c.Parent().Name() + " " + name
	}
	first := firstFlags[name]
	return first != "" && f.Name != "help" && f.Name != "version" && !slices.Contains(strings.Fields(first), f.Name)
}

// SetHelp gives a command and those below it the help with advanced flags, whose texts are broken at so many columns, 0
// for never, and errors of flags that say what is wanted.
func SetHelp(root *cobra.Command, columns int) {
	plain := new(cobra.Command).UsageFunc()
	root.SetUsageFunc(func(c *cobra.Command) error {
		advanced := pflag.NewFlagSet("", pflag.ContinueOnError)
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && IsAdvanced(c, f) {
				advanced.AddFlag(f)
				f.Hidden = true
			}
		})
		out, text := c.OutOrStderr(), &strings.Builder{}
		c.SetOut(text)
		err := plain(c)
		c.SetOut(out)
		flags := c.LocalFlags()
		c.Print(strings.Replace(text.String(), strings.TrimSpace(flags.FlagUsages()),
			strings.TrimSpace(flags.FlagUsagesWrapped(columns)), 1))
		advanced.VisitAll(func(f *pflag.Flag) { f.Hidden = false })
		if advanced.HasFlags() {
			c.Printf("\nAdvanced flags:\n%s", advanced.FlagUsagesWrapped(columns))
		}
		if c.Flags().Lookup("context") != nil {
			c.Print("\nkubectl's other flags for the cluster and the user work here, too, for example --as and --server: " +
				"see \"kubectl options\".\n")
		}
		return err
	})
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return suggest.SeeHelp(flagError(c, err).Error(), c.CommandPath())
	})
}

var wanted = map[string]string{
	"bool":        "true or false",
	"duration":    "a duration, for example 90s, 15m or 1h",
	"int":         "a whole number",
	"float32":     "a number",
	"uint16":      "a whole number from 0 to 65535",
	"stringSlice": "values separated by commas",
	"stringArray": "values separated by commas",
}

// unknownFlag says which flag may be meant. Where there is none and other commands have the flag, it names them.
func unknownFlag(c *cobra.Command, name string) error {
	var known, others []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	for _, other := range c.Root().Commands() {
		if other.Flags().Lookup(name) != nil {
			others = append(others, other.Name())
		}
	}
	meant := suggest.Words(name, known...)
	switch {
	case name == "snapshot" && c.HasParent():
		return fmt.Errorf("%s needs a cluster and does not take --snapshot: use check, explain or pools", c.Name())
	case len(meant) == 0 && len(others) > 0:
		return fmt.Errorf("--%s is a flag of %s, not of %s", name, strings.Join(others, ", "), c.Name())
	}
	return fmt.Errorf("unknown flag: --%s%s", name, suggest.Question("--", meant))
}

func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		return unknownFlag(c, unknown.GetSpecifiedName())
	}
	var bad *pflag.InvalidValueError
	if errors.As(err, &bad) {
		if want := wanted[bad.GetFlag().Value.Type()]; want != "" {
			return fmt.Errorf("--%s %q: must be %s", bad.GetFlag().Name, bad.GetValue(), want)
		}
		return fmt.Errorf("--%s %q: %w", bad.GetFlag().Name, bad.GetValue(), bad.Unwrap())
	}
	return err
}
