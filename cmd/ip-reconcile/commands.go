package main

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/statuscmd"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view/explain"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
)

const snapshotHelp = `
A snapshot is a must-gather, a folder of YAML or JSON files, a .tar or .tgz of one, a
single file, or - for stdin. kubectl writes one:
  kubectl get ippools.whereabouts.cni.cncf.io,overlappingrangeipreservations.whereabouts.cni.cncf.io,pods,nodes,net-attach-def -A -o yaml > dir/cluster.yaml
Where node agents run, add sandboxreports.ip-reconcile.dev and their Leases.`

const (
	yesHelp         = "do not ask; without a terminal to ask on, this flag is needed"
	massReleaseHelp = "release without the breaker, which refuses more than half of all allocations within an hour"
)

const failOnHelp = `
Exit code 0: nothing that --fail-on names; 1: something that --fail-on names; 2: the
cluster could not be read.
`

func newCheck(std streams) *cobra.Command {
	o, two := &options{streams: std, component: "check"}, &comparison{}
	c := &cobra.Command{
		Use:   "check",
		Short: "Judge every address and print the verdicts; read-only",
		Long: `Judge every allocation and reservation and print the verdicts, one line each. What needs
attention comes first. -o wide adds the sentence behind each verdict, as explain has it.
On a terminal the last line says what was cut. check is read-only.

To see changes, run it under watch(1), as in the examples, or open the page of
'ip-reconcile ui'.
` + failOnHelp + compareHelp + snapshotHelp,
		Example: `  ip-reconcile check
  ip-reconcile check --all
  watch ip-reconcile check --verdict Stale
  ip-reconcile check -o json | jq '.allocations[] | select(.verdict == "Stale")'
  ip-reconcile check --snapshot ./must-gather --now 2026-11-20T10:00:00Z
  ip-reconcile check --snapshot ./east --snapshot ./west --same-network east/storage=west/san`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx := c.Context()
			if isAsked, err := two.isAsked(c.Flags()); err != nil || isAsked {
				if err != nil {
					return err
				}
				return o.compare(ctx, two)
			}
			r, checked, err := o.judge(ctx)
			if err != nil {
				return err
			}
			j := checked.Assessment
			if err := o.checkNames(j.Observation); err != nil {
				return err // no empty report, as of a healthy cluster
			}
			d := view.NewCheckReport(view.PlannedResult(checked, r.Plan(ctx, j)), o.filter)
			return o.printJudged(ctx, j, o.fails.Fails(d), o.checkAnswer(j, d))
		},
	}
	o.add(c.Flags(), "warn")
	two.add(c.Flags(), &o.snapshot)
	o.selection.add(c.Flags(), "Stale and every finding")
	o.AddConfirmAfter(c.Flags())
	o.completeNames(c, false)
	return c
}

func newRun(std streams) *cobra.Command {
	o := &options{streams: std, component: "run", writes: true}
	c := &cobra.Command{
		Use:   "run",
		Short: "Judge every address and release the stale ones, once",
		Long: `Judge every allocation and reservation, and release those that are Stale. run releases
a proven item at once. It releases an unconfirmed item once every pass for
--confirm-after agrees, and waits for that.

run makes each write under whereabouts' own Lease, after a second check of fresh objects.
The write fails if anything changed in between. With --snapshot or --dry-run it writes
nothing. With --snapshot it also prints the patches and deletes that it would send.

run prints what it will release, and asks. --yes is the answer in advance. Without --yes
and without a terminal to ask on, run does nothing: exit code 2. A run that waits also
releases what becomes proven meanwhile.
` + failOnHelp + snapshotHelp,
		Example: `  ip-reconcile run --dry-run
  ip-reconcile run
  ip-reconcile run --confirm-after 1h --repair
  ip-reconcile run --yes -o json | jq .released`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx := c.Context()
			if f := c.Flags(); o.Repair && f.Changed("verdict") && !f.Changed("reason") {
				return errors.New("--repair does nothing with --verdict, since findings have none: " +
					"name those to repair with --reason, too")
			}
			r, _, err := o.reconciler(ctx)
			if err != nil {
				return err
			}
			r.Options.Only, r.Options.OnlyFindings = o.filter.Item, o.filter.Finding
			out, err := o.act(ctx, r, o.askToRun)
			if err != nil {
				return err
			}
			d := view.NewRunReport(out, o.DryRun, o.filter)
			if o.snapshot != "" {
				if d.Requests, err = view.NewRequests(out); err != nil {
					return err
				}
			}
			return o.printRun(ctx, out, d)
		},
	}
	o.add(c.Flags(), "warn")
	f := c.Flags()
	o.selection.add(f, "every Stale item that is not released")
	o.AddRunning(f)
	o.addDryRun(f)
	f.BoolVar(&o.yes, "yes", false, yesHelp)
	f.BoolVar(&o.AllowMassRelease, "allow-mass-release", false, massReleaseHelp)
	f.BoolVar(&o.filter.ProvenOnly, "proven-only", false, "release proven items only, which wait for no confirmation")
	f.DurationVar(&o.MaxWait, "max-wait", 0,
		"how long to wait at most for confirmations; 0: until what the first pass found is confirmed")
	o.completeNames(c, false)
	return c
}

// act is the path of run, apply, release and plan: a question, and the run of a reconciler, whose options select what
// may be released. An error of the question ends the command.
func (o *options) act(ctx context.Context, r *reconciler.Reconciler,
	question func(context.Context, *reconciler.Reconciler) error) (*reconciler.Result, error) {
	if o.trail != nil {
		defer o.trail.Start()()
	}
	if err := question(ctx, r); err != nil {
		return nil, err
	}
	return r.Run(ctx)
}

// askToRun asks whether to do what a run will do, but not about nothing.
func (o *options) askToRun(ctx context.Context, r *reconciler.Reconciler) error {
	if !o.writes || !o.asks() {
		return nil
	}
	out, err := dryRunOf(ctx, r)
	if err != nil {
		return err
	}
	d := view.NewRunReport(out, true, o.filter)
	var does []string
	if n := len(d.Releasable()); n > 0 {
		does = append(does, "release "+screen.Count(n, "stale item"))
	}
	if n := len(d.Repaired); n > 0 {
		does = append(does, "repair "+screen.Count(n, "finding"))
	}
	if n := len(o.retirements); n > 0 {
		does = append(does, "delete "+screen.Count(n, "pool"))
		d.Retirements = view.NewRetireReport(out, o.retirements, false).Pools
	}
	if len(does) == 0 {
		return nil
	}
	return o.confirm(ctx, strings.Join(does, " and "), "Nothing was released.",
		answer{document: d, screen: func(s *screen.Screen) { s.BeforeRun(d) }})
}

// dryRunOf makes a run that writes nothing. The verdicts that it reaches begin to stand.
func dryRunOf(ctx context.Context, r *reconciler.Reconciler) (*reconciler.Result, error) {
	dry := *r
	dry.Options.DryRun = true
	return dry.Run(ctx)
}

// printRun prints the document of run or apply, which fails by --fail-on.
func (o *options) printRun(ctx context.Context, out *reconciler.Result, d *view.RunReport) error {
	return o.printJudged(ctx, out.Assessment, o.fails.FailsRun(d), o.runAnswer(out.Assessment, d))
}

// printJudged prints an answer about a judgement. A filter that names nothing is an error at the end of a run, since it
// may have released other items.
func (o *options) printJudged(ctx context.Context, j *findings.Assessment, fails bool, a answer) error {
	err := cmp.Or(o.print(ctx, a), o.checkNames(j.Observation))
	if err == nil && fails {
		return errUnresolved
	}
	return err
}

func (o *options) checkAnswer(j *findings.Assessment, d *view.CheckReport) answer {
	return answer{document: d, notes: d.Notes, names: func() []string { return d.Addresses(o.all) },
		screen: func(s *screen.Screen) {
			s.Check(d)
			o.adviseOnNodes(s, j, d)
		}}
}

func (o *options) runAnswer(j *findings.Assessment, d *view.RunReport) answer {
	return answer{document: d, notes: d.Notes, names: func() []string { return d.Addresses(o.DryRun) },
		screen: func(s *screen.Screen) {
			s.Run(d)
			o.adviseOnNodes(s, j, &d.CheckReport)
		}}
}

// adviseOnNodes writes the steps that end what nodes hold.
func (o *options) adviseOnNodes(s *screen.Screen, j *findings.Assessment, d *view.CheckReport) {
	if !s.NoHeaders {
		s.Advice(explain.NodeSteps(o.advisor(), j, d.Findings))
	}
}

func newStatus(std streams) *cobra.Command {
	o := &options{streams: std, component: "status"}
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
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx := c.Context()
			probe, err := statuscmd.Find(ctx, &o.Flags, o.given)
			if err != nil {
				return err
			}
			r, cluster, err := o.reconciler(ctx)
			if err != nil {
				return err
			}
			r.Progress = nil
			o.progress.Say("Checking the installation")
			lines := probe.Lines(ctx, r, cluster)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			d := view.NewStatusReport(probe.Now, explain.CompleteStatus(o.advisor(), probe.Assessment, lines))
			return o.print(ctx, answer{
				document: d, names: d.IDs, isUnresolved: d.Level != view.LevelOK,
				screen: func(s *screen.Screen) { s.Status(d) },
			})
		},
	}
	o.addWithoutNode(c.Flags(), "error")
	return c
}
