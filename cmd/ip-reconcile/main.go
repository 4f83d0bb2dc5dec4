// Command ip-reconcile finds the IP addresses that whereabouts has leaked, frees
// those that are proven stale, and says why it does so.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/agentcmd"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/memory"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/servecmd"
	"github.com/ip-reconcile/ip-reconcile/internal/version"
)

// The exit codes of run and check.
const (
	exitClean  = 0
	exitLeft   = 1
	exitFailed = 2
)

// errLeft ends a command with exit code 1: it could judge, and something is left.
var errLeft = errors.New("something is left")

func main() {
	flags.DropClientLogs()
	memory.KeepSmall(40)
	os.Exit(execute(arguments(), terminal()))
}

// streams are where a command reads and writes; tests give their own.
type streams struct {
	out, err *os.File
}

func terminal() streams { return streams{out: os.Stdout, err: os.Stderr} }

func execute(args []string, std streams) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot(std)
	root.SetArgs(args)
	switch err := root.ExecuteContext(ctx); {
	case err == nil:
		return exitClean
	case errors.Is(err, errLeft):
		return exitLeft
	default:
		fmt.Fprintf(std.err, "%s: %v\n", commandName(), err)
		return exitFailed
	}
}

func newRoot(std streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "ip-reconcile",
		Short: "Free the IP addresses that whereabouts leaked, and no others",
		Long: `ip-reconcile judges every address that whereabouts has recorded, by the pods in
the API and by what the container runtimes run, frees those that are proven
stale, and says of every other why it is kept.`,
		Example: `  ip-reconcile check                          # judge the cluster of the current kubeconfig; writes nothing
  ip-reconcile explain 10.0.0.7               # why this address is kept, or would be freed
  ip-reconcile run --dry-run                  # what a run would free
  ip-reconcile run                            # free what is stale
  ip-reconcile check --snapshot ./must-gather # the same, on exported YAML or JSON files`,
		Version:       version.Get().String(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetOut(std.out)
	root.SetErr(std.err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return fmt.Errorf("%w; see '%s --help'", err, c.CommandPath())
	})
	root.AddCommand(newCheck(std), newRun(std), newExplain(std), newPools(std), newRecover(std), newStatus(std),
		servecmd.New(std.err, filters.WithAuthenticationAndAuthorization), agentcmd.New(std.err, serveAgentMetrics))
	root.SetUsageTemplate(root.UsageTemplate() + `{{if .HasAvailableLocalFlags}}
All commands take kubectl's other flags of the cluster and the user, too, as --as and --server: see "kubectl options".
{{end}}`)
	rename(root, commandName())
	return root
}
