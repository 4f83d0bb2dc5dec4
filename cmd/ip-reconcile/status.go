package main

import (
	"github.com/spf13/cobra"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/statuscmd"
	"github.com/ip-reconcile/ip-reconcile/internal/version"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

func newStatus(std streams) *cobra.Command {
	o := &options{component: "status"}
	c := &cobra.Command{
		Use:   "status",
		Short: "Say whether the installation works, and if nothing is freed, why; never writes",
		Long: `Check the reconciler, its last pass, the node agents, what stops releases, its rights,
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
			ctx := c.Context()
			probe, err := statuscmd.Find(ctx, &o.Flags, o.given)
			if err != nil {
				return err
			}
			r, err := o.reconciler(ctx, std)
			if err != nil {
				return err
			}
			probe.Version = version.Get().Version
			lines := probe.Lines(ctx, r, r.Writer.(*kube.Cluster))
			if ctx.Err() != nil {
				return ctx.Err()
			}
			a := o.advisor(c.Flags())
			for i := range lines {
				lines[i].Next = a.OnCluster(lines[i].Next)
			}
			d := document.OfStatus(document.NewHeader(document.KindStatus, probe.Version, o.cluster(ctx), probe.Now), lines)
			err = o.print(std, answer{
				document: func() any { return d },
				names:    d.IDs,
				screen:   func(s *screen.Screen) { s.Status(d) },
			})
			if err == nil && d.Level != document.LevelOK {
				return errLeft
			}
			return err
		},
	}
	o.given = c.Flags()
	o.Flags.Add(c.Flags(), "error")
	o.printing.add(c.Flags())
	o.Completions(c)
	return c
}
