// Command ip-reconcile finds and releases IP addresses that whereabouts has leaked, and explains each verdict.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/client-go/rest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/agentcmd"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/border"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/memory"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/servecmd"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/suggest"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view/explain"
	"github.com/ip-reconcile/ip-reconcile/internal/version"
)

// The exit codes.
const (
	exitClean      = 0
	exitUnresolved = 1
	exitFailed     = 2
)

var errUnresolved = errors.New("something needs attention")

// meantBy are words of other tools that do not look like the command that does this here.
var meantBy = map[string][]string{
	"check":   {"list", "get", "ls", "audit", "verify", "scan"},
	"run":     {"reconcile", "repair", "fix", "gc", "clean", "cleanup"},
	"release": {"delete", "remove", "rm", "free"},
	"explain": {"describe", "why"},
	"pools":   {"ippools", "usage"},
	"status":  {"doctor", "health", "diagnose"},
	"history": {"log", "logs", "events"},
	"sysdump": {"dump", "bugreport", "must-gather", "cluster-info"},
	"serve":   {"daemon", "start", "controller"},
	"ui":      {"web", "page", "dashboard", "open"},
}

func main() {
	flags.DropClientLogs()
	memory.KeepSmall(40)
	os.Exit(execute(arguments(), terminal()))
}

type streams struct {
	out, err io.Writer
	in       io.Reader // of a person who sees err; nil for none
	progress *progress // writes err; nil for none

	outDisplay, errDisplay display
}

func terminal() streams {
	isTerminal := func(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
	p := &progress{w: os.Stderr, isTerminal: isTerminal(os.Stderr), columns: func() int { return widthOf(os.Stderr) }}
	std := streams{out: os.Stdout, err: p, progress: p, outDisplay: displayOf(os.Stdout, os.Stdout),
		errDisplay: displayOf(os.Stderr, p)}
	if isTerminal(os.Stdin) && p.isTerminal {
		std.in = os.Stdin
	}
	return std
}

func execute(args []string, std streams) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	std.out, std.err = border.Writer(std.out), border.Writer(std.err)
	root := newRoot(std)
	root.SetArgs(args)
	err := unknownCommand(root, root.ExecuteContext(ctx))
	std.progress.Stop()
	switch {
	case err == nil:
		return exitClean
	case errors.Is(err, errUnresolved):
		return exitUnresolved
	default:
		fmt.Fprintf(std.err, "%s: %s\n", commandName(), err)
		return exitFailed
	}
}

// unknownCommand adds to cobra's error for an unknown command which one may be meant. It returns all other errors as
// they are.
func unknownCommand(root *cobra.Command, err error) error {
	const begin = "unknown command "
	if err == nil || !strings.HasPrefix(err.Error(), begin) {
		return err
	}
	quoted, _ := strconv.QuotedPrefix(err.Error()[len(begin):])
	typed, _ := strconv.Unquote(quoted) // "" is no subject, and like no command
	if s, err := explain.ParseSubject(typed); err == nil && s.Kind != "" {
		return fmt.Errorf("%s%s: did you mean '%s explain %s'?", begin, quoted, root.CommandPath(), typed)
	}
	meant := suggest.Question("", root.SuggestionsFor(typed))
	return suggest.SeeHelp(begin+quoted+meant, root.CommandPath())
}

// noArguments refuses the arguments of a command that takes none, and says where a subject belongs.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if s, err := explain.ParseSubject(args[0]); err == nil && s.Kind != "" {
		return fmt.Errorf("%s takes no arguments, got %q: did you mean '%s explain %s'?", c.Name(), args[0],
			c.Root().CommandPath(), s)
	}
	return fmt.Errorf("%s takes no arguments, got %q; see '%s --help'", c.Name(), args[0], c.CommandPath())
}

func newRoot(std streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "ip-reconcile",
		Short: "Find and release IP addresses that whereabouts has leaked",
		Long: `ip-reconcile judges every address that whereabouts has recorded, by the pods in the API
and by the sandboxes that the node agents report. It releases addresses that are proven
stale, holds all others, and explains each verdict. 'run', 'release', 'apply',
'pools retire', 'recover' and 'serve' write; all other commands are read-only.

Text is as wide as the terminal, or as COLUMNS says. NO_COLOR switches colours off.`,
		Example: `  ip-reconcile check                          # judge the cluster of the current kubeconfig
  ip-reconcile check --snapshot ./must-gather # judge exported YAML or JSON files
  ip-reconcile explain 10.0.0.7               # why this address is held, or is released
  ip-reconcile run --dry-run                  # what a run would release
  ip-reconcile run                            # release what is stale
  ip-reconcile release 10.0.0.7               # release this address now, by hand`,
		Version:       version.Get().String(),
		SilenceErrors: true,
		SilenceUsage:  true,

		DisableSuggestions: true, SuggestionsMinimumDistance: 2, // unknownCommand adds them, on the same line
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetOut(std.out)
	root.SetErr(std.err)
	flags.SetHelp(root, std.outDisplay.columns)
	root.AddCommand(newCheck(std), newRun(std), newRelease(std), newExplain(std), newPools(std), newRecover(std),
		newStatus(std), newHistory(std), newPlan(std), newApply(std), newSysdump(std), newUI(std),
		servecmd.New(std.err, filters.WithAuthenticationAndAuthorization, newPassPage),
		agentcmd.New(std.err, serveAgentMetrics),
		&cobra.Command{
			Use: "version", Short: "Print the version", Args: noArguments,
			Run: func(*cobra.Command, []string) { fmt.Fprintln(std.out, "ip-reconcile version", root.Version) },
		})
	for _, c := range root.Commands() {
		c.SuggestFor = meantBy[c.Name()]
		for _, c := range append(c.Commands(), c) {
			fixedCompletions(c)
			refuseRepeated(c)
		}
	}
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args = func(_ *cobra.Command, args []string) error { // cobra prints the help of the root, with exit code 0
			_, _, err := root.Find(args)
			return err
		}
	}
	rename(root, commandName())
	return root
}

// The names by which kubectl calls the program: as the plugin ip-reconcile, and to complete its command line (kubectl
// v0.36.3, pkg/cmd/plugin/plugin_completion.go). Each is a link to the program.
const (
	pluginName   = "kubectl-ip_reconcile"
	completeName = "kubectl_complete-ip_reconcile"
)

func calledAs() string { return strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") }

func commandName() string {
	if calledAs() == pluginName {
		return "kubectl ip-reconcile"
	}
	return "ip-reconcile"
}

// arguments returns the arguments of the command line. kubectl asks for completions without a command of its own.
func arguments() []string {
	if calledAs() == completeName {
		return append([]string{cobra.ShellCompRequestCmd}, os.Args[1:]...)
	}
	return os.Args[1:]
}

func rename(c *cobra.Command, name string) {
	const plain = "ip-reconcile"
	if name == plain {
		return
	}
	if !c.HasParent() {
		c.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
	}
	c.Example = strings.ReplaceAll("\n"+c.Example, "\n  "+plain+" ", "\n  "+name+" ")[1:]
	c.Long = strings.ReplaceAll(c.Long, "'"+plain+" ", "'"+name+" ")
	for _, sub := range c.Commands() {
		rename(sub, name)
	}
}

// serveAgentMetrics serves the node agent's metrics by HTTPS, to accounts that may get /metrics. It would make the
// program ip-reconcile-agent twice as large, and is not part of that.
func serveAgentMetrics(
	ctx context.Context, config *rest.Config, address, certDir string, of prometheus.Collector, log *slog.Logger,
) error {
	ctrllog.SetLogger(logr.FromSlogHandler(log.Handler()))
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("set up a client for %s: %w", config.Host, err)
	}
	if err := metrics.Registry.Register(of); err != nil {
		return err
	}
	s, err := server.NewServer(server.Options{
		BindAddress: address, SecureServing: true, CertDir: certDir,
		FilterProvider: filters.WithAuthenticationAndAuthorization,
	}, config, client)
	if err != nil {
		return err
	}
	return s.Start(ctx)
}
