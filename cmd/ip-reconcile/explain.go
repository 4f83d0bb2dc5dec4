package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/explanation"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
)

func newExplain(std streams) *cobra.Command {
	o := &options{component: "explain"}
	c := &cobra.Command{
		Use:   "explain IP | NAMESPACE/POD | node/NAME | pool/NAME",
		Short: "Say what is known of an address, pod, node or pool, and what you can do",
		Long: `Print the evidence on an address, a pod, a node or a pool, the rule behind each
verdict, what stands against a release, and what you can do: commands with the
real names filled in. It never writes.

A pod is NAMESPACE/POD or pod/NAMESPACE/POD, a pool is pool/NAME,
pool/NAMESPACE/NAME or its range, as 10.0.0.0/24. A command that is to be run on a
node needs no kubeconfig; with --snapshot all others are for the cluster that the
snapshot is of: give its --context, or put it for CONTEXT_OF_THAT_CLUSTER.

Exit code 0: something is recorded or known; 1: nothing is; 2: the cluster could
not be read.
` + snapshotHelp,
		Example: `  ip-reconcile explain 10.0.0.7
  ip-reconcile explain default/web-0
  ip-reconcile explain node/worker-1
  ip-reconcile explain pool/10.0.0.0-24
  ip-reconcile explain 2001:db8::7 --snapshot ./must-gather`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("explain takes one address, pod, node or pool, got %d arguments; see '%s --help'",
					len(args), c.CommandPath())
			}
			_, err := explanation.ParseSubject(args[0])
			return err
		},
		RunE: func(c *cobra.Command, args []string) error {
			subject, err := explanation.ParseSubject(args[0])
			if err != nil {
				return err
			}
			r, d, err := o.explain(c.Context(), std, subject, c.Flags())
			if err != nil {
				return err
			}
			err = o.print(std, answer{
				notes: r.Notes(),
				document: func() any {
					d.Header = o.header(c.Context(), document.KindExplanation, r.Observation)
					return d
				},
				names:  func() []string { return r.Addresses(true) },
				screen: func(s *screen.Screen) { s.Explain(r, d) },
			})
			if err == nil && !d.Found {
				return errLeft
			}
			return err
		},
	}
	o.add(c.Flags(), "warn")
	o.AddConfirmAfter(c.Flags())
	o.completions(c)
	return c
}

// explain judges the cluster and picks what is about a subject.
func (o *options) explain(ctx context.Context, std streams, subject explanation.Subject, f *pflag.FlagSet) (*report.Report, *document.Explanation, error) {
	r, err := o.reconciler(ctx, std)
	if err != nil {
		return nil, nil, err
	}
	j, err := r.Check(ctx)
	if err != nil {
		return nil, nil, err
	}
	plan := r.Plan(ctx, j)
	recent, err := r.Breaker(ctx, j)
	if err != nil {
		o := j.Observation
		o.Warnings = append(o.Warnings, fmt.Sprintf("what the breaker counts could not be read: %v", err))
	}
	found, d := explanation.Answer(explanation.Question{Subject: subject, Judgement: j, Plan: plan, Recent: recent,
		Advisor: o.advisor(f), Snapshot: o.snapshot != ""})
	return found, d, nil
}

// advisor writes commands for the cluster that the flags name, and for the same pause
// annotation and policy. A snapshot does not say which cluster it is of: unless a context is given, its commands
// have one that no kubeconfig has, so that they fail where they are pasted.
func (o *options) advisor(f *pflag.FlagSet) advice.Advisor {
	a := advice.Advisor{Program: commandName(), Namespace: o.Namespace()}
	flags.VisitKubectl(f, a.ClusterFlag)
	if o.snapshot != "" && !strings.Contains(" "+strings.Join(a.KubectlFlags, " "), " --context=") {
		a.ClusterFlag("context", "CONTEXT_OF_THAT_CLUSTER")
	}
	if f.Changed("reconciler-namespace") {
		a.Flag("reconciler-namespace", o.Namespace())
	}
	for _, name := range []string{"lease-namespace", "agents", "agent-nodes", "trust-network-status", "confirm-after"} {
		flag := f.Lookup(name)
		if flag == nil || !flag.Changed {
			continue
		}
		a.Flag(name, flag.Value.String())
	}
	return a
}
