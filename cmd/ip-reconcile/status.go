package main

import (
	"github.com/spf13/cobra"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/statuscmd"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

func newStatus(std streams) *cobra.Command {
	o := &options{component: "status"}
	c := &cobra.Command{
		Use:   "status",
		Short: "Check the installation, and why nothing is released; read-only",
		Long: `Check the reconciler, its last pass, the node agents, the gates against releases, RBAC,
the custom resource definitions, and whatever else releases addresses in the cluster. Each
fault has the command to type next. status is read-only.

  ✓ as it should be         ! works, but needs attention
  ✗ does not work           – unknown, or not in use

status takes --agents, --agent-nodes, --lease-namespace, --unreachable-node-timeout and
--trust-network-status from the deployed reconciler where they are not given here, and
always its namespace and its --confirm-after.

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
			lines := probe.Lines(ctx, r, r.Writer.(*kube.Cluster))
			if ctx.Err() != nil {
				return ctx.Err()
			}
			for i := range lines {
				lines[i].Next = o.advisor().OnCluster(lines[i].Next)
			}
			d := document.OfStatus(document.Header{}, lines)
			return o.print(ctx, std, answer{
				kind: document.KindStatus, at: probe.Now, isUnresolved: d.Level != document.LevelOK,
				document: func(h document.Header) any { d.Header = h; return d },
				names:    d.IDs,
				screen:   func(s *screen.Screen) { s.Status(d) },
			})
		},
	}
	o.addWithoutNode(c.Flags(), "error")
	return c
}
