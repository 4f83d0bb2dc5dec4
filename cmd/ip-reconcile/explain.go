package main

import (
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
)

func newExplain(std streams) *cobra.Command {
	o := &options{component: "explain"}
	c := &cobra.Command{
		Use:   "explain IP",
		Short: "Say what is known of one address, and the rule behind its verdict",
		Long: `Print the evidence and the rule behind the verdict on one address, in every pool
and network that records it.

Exit code 0: it is recorded; 1: no pool records it; 2: the cluster could not be
looked at.
` + snapshotHelp,
		Example: `  ip-reconcile explain 10.0.0.7
  ip-reconcile explain 2001:db8::7 --snapshot ./must-gather`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("explain takes one IP address, got %d arguments; see '%s --help'", len(args), c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			addr, err := netip.ParseAddr(args[0])
			if err != nil {
				return fmt.Errorf("%q is not an IP address", args[0])
			}
			r, err := o.reconciler(std)
			if err != nil {
				return err
			}
			defer showProgress(std, r)()
			j, err := r.Check(c.Context())
			if err != nil {
				return err
			}
			r.Options.StaticSource = false // what the cluster itself would wait for
			plan := r.Plan(c.Context(), j)
			rep := report.OfCheck(j.About(addr.Unmap()), plan, report.Filter{})
			err = o.print(std, answer{
				notes: j.Notes(),
				document: func() any {
					return document.OfCheck(o.header(c.Context(), document.KindExplanation, j.Observation), rep)
				},
				names:  func() []string { return rep.Addresses(true) },
				screen: func(s *screen.Screen) { s.Explain(addr.Unmap(), rep) },
			})
			if err == nil && len(rep.Allocations)+len(rep.Reservations) == 0 {
				return errLeft
			}
			return err
		},
	}
	o.add(c.Flags(), "warn")
	o.AddConfirmAfter(c.Flags())
	o.completions(c)
	c.ValidArgsFunction = o.completeAddresses
	return c
}
