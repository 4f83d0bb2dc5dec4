// Command ip-reconcile-agent is `ip-reconcile agent` alone. The DaemonSet runs it, since it needs less memory.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/agentcmd"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/border"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/memory"
	"github.com/ip-reconcile/ip-reconcile/internal/version"
)

func main() {
	flags.DropClientLogs()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	memory.KeepSmall(80)
	command := agentcmd.New(os.Stderr, nil)
	command.Use, command.Version = "ip-reconcile-agent", version.Get().String()
	command.Example = strings.ReplaceAll(command.Example, "ip-reconcile agent", "ip-reconcile-agent")
	flags.SetHelp(command, 0)
	command.SilenceErrors, command.SilenceUsage = true, true
	if err := command.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(border.Writer(os.Stderr), "ip-reconcile-agent: %v\n", err)
		os.Exit(2)
	}
}
