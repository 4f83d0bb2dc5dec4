package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
)

// newOptions is 'kubectl options' for this program: the flags that are kubectl's own, which
// the help of the other commands leaves out.
func newOptions(std streams) *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "List kubectl's own flags, which all commands take",
		Long: `List the flags of which cluster it is and who asks, which are kubectl's and mean the
same. The help of the other commands has the common ones only.`,
		Args: flags.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(std.out, "These flags can be passed to any command:\n\n%s", flags.KubectlUsages())
			return err
		},
	}
}
