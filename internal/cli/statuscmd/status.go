// Package statuscmd is the command `ip-reconcile status`: is it installed right, does it
// work, and if nothing is freed, why.
//
// The cluster is read into facts once (facts.go, workload.go, definition.go, rights.go, schedule.go). The checks
// (checks.go, check_*.go) make lines of them, without I/O.
package statuscmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/clusterflags"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/table"
	"github.com/ip-reconcile/ip-reconcile/internal/version"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// ErrFaults ends the command with exit code 1: a line is a warning or an error.
var ErrFaults = errors.New("something is not as it should be")

type options struct {
	clusterflags.Flags
	output string
	given  *pflag.FlagSet
}

// New is the command. It prints to out and logs to the other.
func New(out *os.File, logs io.Writer) *cobra.Command {
	o := &options{}
	c := &cobra.Command{
		Use:   "status",
		Short: "Say whether the installation works, and if nothing is freed, why; never writes",
		Long: `Check the reconciler, its last pass, the node agents, what stops releases, rights,
custom resource definitions, and whatever else frees addresses beside it; and say
of each fault which command to type next. It never writes.

  ✓ is as it should be      ! works, but somebody should know or decide
  ✗ does not work           – is not known, or not in use

The flags of the deployed reconciler (--agents, --agent-nodes, --lease-namespace,
--unreachable-node-timeout, --trust-network-status) count where none are given here,
and so do its namespace and its --confirm-after.

Exit code 0: no ! and no ✗; 1: there are; 2: the cluster could not be read.`,
		Example: `  ip-reconcile status
  ip-reconcile status -o json | jq '.lines[] | select(.level == "Error")'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.output != "table" && o.output != "json" && o.output != "yaml" {
				return fmt.Errorf("--output %q: must be table, json or yaml", o.output)
			}
			o.given = c.Flags()
			f, err := o.read(c.Context(), logs)
			if err != nil {
				return err
			}
			a := advice.Advisor{Program: c.Root().DisplayName()}
			flags.VisitKubectl(c.Flags(), a.ClusterFlag)
			said := say(f)
			for i := range said {
				said[i].Next = a.OnCluster(said[i].Next)
			}
			d := document.OfStatus(document.NewHeader(document.KindStatus, f.version, f.cluster, f.now), said)
			var text bytes.Buffer
			if o.output == "table" {
				writeText(&text, d, table.For(out, os.Getenv))
			} else if encoded, err := document.Encode(o.output, d); err == nil {
				text.Write(encoded)
			} else {
				return err
			}
			if _, err := text.WriteTo(out); err != nil {
				return err
			}
			if d.Level != document.LevelOK {
				return ErrFaults
			}
			return nil
		},
	}
	o.Add(c.Flags(), "error")
	c.Flags().StringVarP(&o.output, "output", "o", "table", "table, json or yaml")
	o.Completions(c)
	flags.Complete(c, "output", "table", "json", "yaml")
	return c
}

// read reads the cluster. The error is for a cluster that cannot be reached at all.
func (o *options) read(ctx context.Context, logs io.Writer) (*facts, error) {
	log, err := o.Logger(logs)
	if err != nil {
		return nil, err
	}
	if _, err := o.Options(); err != nil {
		return nil, err
	}
	config, core, err := client(&o.Flags, "status")
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("set up a client for %s: %w", config.Host, err)
	}
	if err := reach(ctx, core, config.Host); err != nil {
		return nil, err
	}
	f := &facts{version: version.Get().Version, cluster: document.Cluster{Server: config.Host}}
	f.workloads = ask(ctx, askFor, func(ctx context.Context) (inventory, error) { return readWorkloads(ctx, core, o.Namespace(), "") })
	if err := o.adopt(f); err != nil {
		return nil, err
	}
	r, err := o.Reconciler(log)
	if err != nil {
		return nil, err
	}
	cluster, _, err := o.Connect("status", log)
	if err != nil {
		return nil, err
	}
	r.Source, r.Window, r.Restores = cluster, cluster, cluster.Restores()
	f.read(ctx, probe{cluster, core, objects}, func(ctx context.Context) (judged, error) {
		j, err := r.Check(ctx)
		if err != nil {
			return judged{}, err
		}
		pools := usage.Of(j)
		pools.AddWaiting()
		return judged{j, r.Plan(ctx, j), pools}, nil
	})
	f.cluster.UID = ask(ctx, askFor, func(ctx context.Context) (string, error) {
		_, uid := cluster.ClusterIdentity(ctx)
		return uid, nil
	}).value
	f.now = cluster.Now()
	if f.judged.err == nil && f.judged.value.Observation.Now.After(f.now) {
		f.now = f.judged.value.Observation.Now
	}
	return f, ctx.Err()
}

// adopt takes over, where they are not given, the namespace and the flags of the reconciler
// that is deployed, so that status observes what it observes. Where there are several none
// is preferred.
func (o *options) adopt(f *facts) error {
	if found := f.workloads.value.reconcilers(); len(found) == 1 {
		adoptNamespace(o.given, found[0])
	}
	f.namespace, o.ConfirmAfter = o.Namespace(), 15*time.Minute
	if w := f.own(); w != nil {
		if err := adoptFlags(o.given, w); err != nil {
			return err
		}
		if d, err := time.ParseDuration(w.argument("--confirm-after")); err == nil {
			o.ConfirmAfter = d
		}
	}
	f.leaseNamespace = o.LeaseNamespace()
	return nil
}

// client is for what the reconciler itself does not read.
func client(o *clusterflags.Flags, component string) (*rest.Config, kubernetes.Interface, error) {
	config, err := o.Config(component, o.QPS, o.Burst)
	if err != nil {
		return nil, nil, err
	}
	config.Timeout = o.Timeout
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, nil, fmt.Errorf("set up a client for %s: %w", config.Host, err)
	}
	return config, core, nil
}

// reach is an error where the API server does not answer, or not to this user. That /version
// is forbidden is an answer.
func reach(ctx context.Context, core kubernetes.Interface, host string) error {
	a := ask(ctx, askFor, core.Discovery().RESTClient().Get().AbsPath("/version").DoRaw)
	switch {
	case a.err == nil, apierrors.IsForbidden(a.err), apierrors.IsNotFound(a.err):
		return nil
	case apierrors.IsUnauthorized(a.err):
		return fmt.Errorf("the API server at %s does not accept the credentials: log in again, or name another --kubeconfig or --context", host)
	}
	return fmt.Errorf("the API server at %s cannot be reached (%s): check the network, --kubeconfig and --context", host, a.why())
}

// levels are what stands for the levels on a terminal, what needs attention first.
var levels = []struct {
	document.Level
	mark  string
	paint table.Level
}{
	{document.LevelError, "✗", table.Bad},
	{document.LevelWarning, "!", table.Warn},
	{document.LevelOK, "✓", table.Good},
	{document.LevelUnknown, "–", table.Plain},
}

// writeText writes the lines by level, each with the command to type next.
func writeText(out *bytes.Buffer, d *document.Status, style table.Style) {
	count := map[document.Level]int{}
	for _, l := range d.Lines {
		count[l.Level]++
	}
	fmt.Fprintf(out, "%s: %s, %s\n", d.Cluster.Server, plural(count[document.LevelError], "error"), plural(count[document.LevelWarning], "warning"))
	for _, level := range levels {
		for _, l := range d.Lines {
			if l.Level != level.Level {
				continue
			}
			var text bytes.Buffer
			style.Wrapped(&text, level.mark+" ", l.Message)
			out.WriteString(style.Paint(level.paint, level.mark))
			out.Write(text.Bytes()[len(level.mark):])
			if l.Next != "" {
				fmt.Fprintf(out, "    %s\n", l.Next)
			}
		}
	}
}
