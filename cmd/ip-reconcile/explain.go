package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/explanation"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

func newExplain(std streams) *cobra.Command {
	o := &options{streams: std, component: "explain"}
	var file string
	c := &cobra.Command{
		Use:   "explain IP | NAMESPACE/POD | node/NAME | pool/NAME | -f FILE",
		Short: "Explain an address, pod, node or pool, and what you can do; read-only",
		Long: `Print the evidence on an address, a pod, a node or a pool, the rule behind each verdict,
the gates against each release, and what you can do: commands with the real names
filled in. explain is read-only.

A pod is NAMESPACE/POD or pod/NAMESPACE/POD. A pool is pool/NAME, pool/NAMESPACE/NAME or
its range, for example 10.0.0.0/24.

A printed command runs on any machine with a kubeconfig, unless explain names the node to
run it on. With --snapshot give the --context of the cluster that the snapshot is of.
Without it the commands have CONTEXT_OF_THAT_CLUSTER in its place.

With -f explain prints for each address of a file, one on each line, whether it is Free,
for example to import machines that keep their addresses. Else it is InUse, Held, Stale,
Reserved, Excluded by the definitions, OutsideEveryPool, or Unknown without definitions.
An address is InUse, too, if only a pod or a Node has it, for example by static IPAM.

Exit code 0: something is recorded or known; 1: nothing is; 2: the cluster could not be
read. With -f, 0: all are Free; 1: one is not.
` + snapshotHelp,
		Example: `  ip-reconcile explain 10.0.0.7
  ip-reconcile explain default/web-0
  ip-reconcile explain node/worker-1
  ip-reconcile explain pool/10.0.0.0-24
  ip-reconcile explain 2001:db8::7 --snapshot ./must-gather
  echo 10.0.0.9 | ip-reconcile explain -f -`,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case file != "" && len(args) == 0:
				return o.explainFile(c.Context(), file)
			case file != "" || len(args) != 1:
				return fmt.Errorf("explain takes one address, pod, node or pool, or -f alone, got %d arguments; see '%s --help'",
					len(args), c.CommandPath())
			}
			subject, err := explanation.ParseSubject(args[0])
			if err != nil {
				return err
			}
			r, j, err := o.judge(c.Context())
			if err != nil {
				return err
			}
			rep, d := o.explainJudged(c.Context(), r, j, explanation.Question{Subject: subject})
			return o.print(c.Context(), answer{
				kind: document.KindExplanation, at: j.Observation.Now, notes: rep.Notes(), isUnresolved: !d.Found,
				document: func(h document.Header) any { d.Header = h; return d },
				names:    func() []string { return rep.Addresses(true) },
				screen:   func(s *screen.Screen) { s.Explain(rep, d) },
			})
		},
	}
	o.add(c.Flags(), "warn")
	o.AddConfirmAfter(c.Flags())
	c.Flags().StringVarP(&file, "filename", "f", "", "print the state of each address in this file, or - for stdin")
	return c
}

func (o *options) explainFile(ctx context.Context, file string) error {
	read := os.ReadFile
	if file == "-" {
		read = func(string) ([]byte, error) { return io.ReadAll(os.Stdin) }
	}
	text, err := read(file)
	if err != nil {
		return err
	}
	var asked []netip.Addr
	for i, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		addr, err := netip.ParseAddr(line)
		if err != nil {
			return fmt.Errorf("%s:%d: %q: must be an IP address", file, i+1, line)
		}
		asked = append(asked, addr.Unmap().WithZone(""))
	}
	if len(asked) == 0 {
		return fmt.Errorf("%s: no addresses in the file", file)
	}
	_, j, err := o.judge(ctx)
	if err != nil {
		return err
	}
	all := explanation.Addresses(j, asked)
	free := report.Only(all, func(a document.AddressState) bool { return a.State == "Free" })
	return o.print(ctx, answer{
		kind: document.KindAddresses, at: j.Observation.Now, notes: j.Notes(), isUnresolved: len(free) < len(all),
		document: func(h document.Header) any {
			return &document.AddressList{Header: h, Limits: document.LimitsOf(j), Addresses: all}
		},
		names: func() []string { return document.Rows(free, func(a document.AddressState) string { return a.IP }) },
		screen: func(s *screen.Screen) {
			row := func(a document.AddressState) []string {
				return []string{a.IP, a.State, a.Pool, cmp.Or(a.PodRef, strings.Join(a.CarriedBy, ", "))}
			}
			for _, unknown := range j.Observation.UnknownSources() {
				s.Text("Note: ", unknown.Unknown+"; "+unknown.Costs)
			}
			s.Table([]string{"ADDRESS", "STATE", "POOL", "POD OR NODE"}, document.Rows(all, row), nil)
		},
	})
}

// explainJudged answers a question about a judgement. The question has the subject, and what to pick of it.
func (o *options) explainJudged(ctx context.Context, r *reconciler.Reconciler, j *judge.Judgement,
	q explanation.Question) (*report.Report, *document.Explanation,
) {
	q.Judgement, q.Plan, q.Advisor, q.Snapshot = j, r.Plan(ctx, j), o.advisor(), o.snapshot != ""
	recent, err := r.Breaker(ctx, j)
	if err != nil {
		j.Observation.Warnings = append(j.Observation.Warnings, fmt.Sprintf("the breaker's count could not be read: %v", err))
	}
	q.Recent = recent
	return explanation.Answer(q)
}

// advisor returns an Advisor whose commands have the flags that name the cluster and decide about verdicts. Without a
// given context those of a snapshot have one that no kubeconfig has, and fail where they are pasted.
func (o *options) advisor() advice.Advisor {
	a := advice.Advisor{Program: commandName(), Namespace: o.Namespace()}
	flags.VisitKubectl(o.given, a.ClusterFlag)
	if o.snapshot != "" && !strings.Contains(" "+strings.Join(a.KubectlFlags, " "), " --context=") {
		a.ClusterFlag("context", "CONTEXT_OF_THAT_CLUSTER")
	}
	for _, name := range []string{
		"reconciler-namespace", "lease-namespace", "agents", "agent-nodes", "trust-network-status", "confirm-after",
	} {
		if flag := o.given.Lookup(name); flag != nil && flag.Changed {
			a.Flag(name, flag.Value.String())
		}
	}
	return a
}
