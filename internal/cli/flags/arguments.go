package flags

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// NoArguments refuses arguments of a command that takes none, and says which command takes
// such a one.
func NoArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := ""
	if _, err := netip.ParseAddr(args[0]); err == nil {
		hint = fmt.Sprintf("; did you mean '%s explain %s'?", c.Root().CommandPath(), args[0])
	}
	return fmt.Errorf("%s takes no arguments, got %q%s; see '%s --help'", c.Name(), strings.Join(args, " "), hint, c.CommandPath())
}

// UnknownCommand refuses the arguments of a command that has others below it.
func UnknownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if _, err := netip.ParseAddr(args[0]); err == nil {
		return fmt.Errorf("unknown command %q; did you mean '%s explain %s'?", args[0], c.CommandPath(), args[0])
	}
	if c.SuggestionsMinimumDistance <= 0 {
		c.SuggestionsMinimumDistance = 2 // cobra's own default
	}
	return fmt.Errorf("unknown command %q%s; see '%s --help'", args[0], oneOf(c.SuggestionsFor(args[0])), c.CommandPath())
}

// ExplainFlagError says of an error in the flags of a command which flag may have been
// meant, and where the help is.
func ExplainFlagError(c *cobra.Command, err error) error {
	hint := ""
	if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) {
		err = withoutValue(err, unknown.GetSpecifiedShortnames())
	}
	if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden || f.Annotations[kubectlFlag] != nil {
				names = append(names, "--"+f.Name)
			}
		})
		if hint = DidYouMean("--"+unknown.GetSpecifiedName(), names...); unknown.GetSpecifiedName() == "snapshot" {
			hint = "; check, explain and pools judge a snapshot"
		}
	}
	if invalid := (*pflag.InvalidValueError)(nil); errors.As(err, &invalid) && invalid.GetFlag().Value.Type() == "bool" {
		err = fmt.Errorf("--%s %q: must be true or false", invalid.GetFlag().Name, invalid.GetValue())
	}
	return fmt.Errorf("%w%s; see '%s --help'", err, hint, c.CommandPath())
}

// DidYouMean asks for those of the names that are like the one given, "" if none is.
func DidYouMean(given string, names ...string) string {
	// cobra suggests commands only: by edit distance, and by what they begin with.
	all := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, name := range names {
		all.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	return oneOf(all.SuggestionsFor(given))
}

func oneOf(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", strings.Join(names, " or "))
}
