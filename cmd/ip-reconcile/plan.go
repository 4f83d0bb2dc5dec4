package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/planfile"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/suggest"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/internal/version"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

func newPlan(std streams) *cobra.Command {
	o := &options{streams: std, component: "plan"}
	o.ByHand = true
	var file string
	c := &cobra.Command{
		Use:   "plan",
		Short: "Plan releases for review, as a file for 'apply'; read-only",
		Long: `Print what 'apply' may release, proven and unconfirmed. With --output-file plan also writes
that to a file, each item with its evidence. plan is read-only.

With --snapshot a plan can be made where the cluster cannot be reached, of a must-gather
for example, and applied where it can. The files must have the namespace kube-system,
whose UID says of which cluster they are. apply tests each item against the live cluster.

With --retire the plan has the removal of these pools, and of the releases only those of
what is left in them. apply judges again whether the pools may go.

A reviewer may delete items of the file, and must not edit any. The digest of an item binds
it to its cluster and its plan: it finds mistakes, and is no signature.

Exit code 0: planned, even if nothing is to be released; 2: the cluster could not be read.
` + snapshotHelp + `
A plan needs the namespace, too:
  kubectl get namespace kube-system -o yaml > dir/namespace.yaml`,
		Example: `  ip-reconcile plan --output-file plan.json
  ip-reconcile plan --pool 10.0.0.0/24 --output-file plan.yaml
  ip-reconcile plan --snapshot ./must-gather --output-file plan.json
  ip-reconcile plan -o json | jq -r '.items[] | [.ip, .podRef, .message] | @tsv'`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return o.plan(c.Context(), file) },
	}
	f := c.Flags()
	o.add(f, "warn")
	o.AddConfirmAfter(f)
	o.selection.addFilters(f)
	f.StringVar(&file, "output-file", "", "new file for the plan: NAME.json or NAME.yaml")
	f.BoolVar(&o.AllowMassRelease, "allow-mass-release", false, "plan to "+massReleaseHelp)
	f.StringSliceVar(&o.retire, "retire", nil, "plan the removal of these pools, as 'pools retire' does")
	o.completeNames(c, false)
	return c
}

// planForm returns the form of a plan's file by its name; "" for a name that a plan cannot have.
func planForm(file string) string {
	return map[string]string{".json": "json", ".yaml": "yaml", ".yml": "yaml"}[filepath.Ext(file)]
}

func (o *options) plan(ctx context.Context, file string) error {
	if file != "" && planForm(file) == "" {
		return fmt.Errorf("--output-file %q: must be NAME.json or NAME.yaml", file)
	}
	r, _, err := o.reconciler(ctx)
	if err != nil {
		return err
	}
	r.Leases, r.Options.Only = nil, o.filter.Item // whoever plans need not be allowed to release
	pools, err := o.planRetirement(ctx, r)
	if err != nil {
		return err
	}
	out, err := o.act(ctx, r, o.askToRun)
	if err == nil {
		err = o.checkNames(out.Observation)
	}
	if err != nil {
		return err
	}
	uid, err := o.clusterUID(ctx)
	switch {
	case err != nil:
		return planfile.NoUID(err)
	case uid == "":
		return fmt.Errorf("--snapshot %s: the files lack the namespace kube-system, by whose UID a plan identifies its "+
			"cluster: add it (kubectl get namespace kube-system -o yaml); an archive with redacted names cannot be planned",
			o.snapshot)
	}
	items := planfile.Select(out)
	d := view.NewRunReport(out, true, o.filter)
	judged := o.cluster
	judged.UID = uid
	p := planfile.New(view.NewHeader(view.KindPlan, version.Get().Version, judged, out.Observation.Now), items)
	p.Limits, p.Pools = d.Limits, planfile.NewPools(p.Header, pools)
	a := answer{
		document: p, notes: d.Notes,
		names: func() []string { return lists.Map(items, (*judge.Item).Text) },
		screen: func(s *screen.Screen) {
			s.Plan(d)
			for _, pool := range p.Pools {
				s.Line("\nPool %s (%s) would be deleted once it is empty.", pool.Pool, pool.Range)
			}
			switch {
			case file == "":
			case len(items)+len(p.Pools) == 0:
				s.Line("\nWrote %s without items: nothing can be released now, so there is nothing to apply.", file)
			default:
				s.Line("\nWrote %s to %s. Delete what must stay, then run:\n    %s", sizeOf(p), file,
					o.advisor().OnCluster(o.applyCommand(file)))
			}
		},
	}
	if file != "" {
		ofFile := *o
		ofFile.output, ofFile.path = planForm(file), nil
		write, err := ofFile.render(ctx, a)
		if err == nil {
			err = create(file, write)
		}
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("--output-file %s: the file exists, and plan replaces none: choose another name", file)
		}
		if err != nil {
			return fmt.Errorf("write the plan: %w", err)
		}
	}
	return o.print(ctx, a)
}

// applyCommand is the command that applies a plan. The breaker counts again then.
func (o *options) applyCommand(file string) string {
	command := "ip-reconcile apply -f " + advice.QuotePath(file)
	if o.AllowMassRelease {
		command += " --allow-mass-release"
	}
	return command
}

// sizeOf counts what a plan has.
func sizeOf(p *view.Plan) string {
	text := screen.Count(len(p.Items), "item")
	if len(p.Pools) > 0 {
		text += " and " + screen.Count(len(p.Pools), "pool")
	}
	return text
}

// planRetirement returns the pools to retire, and lets the plan have only what is left in them. A pool that something
// stands against is an error.
func (o *options) planRetirement(ctx context.Context, r *reconciler.Reconciler) (pools []*ippool.Pool, err error) {
	if len(o.retire) == 0 {
		return nil, nil
	}
	checked, err := r.Check(ctx)
	if err != nil {
		return nil, err
	}
	a := checked.Assessment
	if pools, err = namedPools(a, o.retire); err != nil {
		return nil, fmt.Errorf("--retire: %w", err)
	}
	planned := r.PlanRetirement(a, pools)
	for _, x := range planned {
		if x.State != reconciler.PoolWould {
			return nil, fmt.Errorf("--retire %s: the pool is kept: %s; '%s pools retire %s --dry-run' lists all of it",
				x.Pool.Ref(), x.Why(), commandName(), x.Pool.Ref())
		}
	}
	isLeft := judge.IDs(leftoversOf(planned))
	only := r.Options.Only
	r.Options.Only = func(it *judge.Item) bool { return isLeft[it.ID()] && only(it) }
	return pools, nil
}

func newApply(std streams) *cobra.Command {
	o := &options{streams: std, component: "apply", writes: true}
	o.ByHand = true
	var maxAge time.Duration
	var file string
	c := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Release what a plan lists and is still stale by the same evidence",
		Long: `Judge the cluster again, and release the items of a plan that are still Stale by the same
evidence, as run does. apply may release less than the plan has, and never more. It prints
what has changed on each item that is not released. FILE is what 'plan' has written. apply
waits for confirmations as 'release' does: for a minute at most, unless the pod is Pending.

apply refuses a plan of another cluster, an old one, and one with an item that was edited.
It may be killed and run again: what is already released counts as done.
apply prints what it will release, and asks. --yes is the answer in advance. Without --yes
and without a terminal to ask on, apply does nothing: exit code 2.

Exit code 0: nothing of the plan is recorded any more; 1: an item is not released, or that
is unknown since reservations cannot be read, or a pool is kept; 2: the plan is refused, or
the cluster could not be read, perhaps again for the pools, after releases: they are printed.`,
		Example: `  ip-reconcile plan --output-file plan.json
  ip-reconcile apply -f plan.json
  ip-reconcile apply -f plan.json --yes -o json | jq '.failed[] | [.ip, .detail]'`,
		RunE: func(c *cobra.Command, args []string) error {
			if file != "" {
				args = append(args, file)
			}
			if len(args) != 1 {
				return suggest.SeeHelp(fmt.Sprintf("apply takes one plan, -f FILE, got %d", len(args)), c.CommandPath())
			}
			return o.apply(c.Context(), args[0], maxAge)
		},
	}
	f := c.Flags()
	o.addLive(f, "warn")
	o.AddConfirmAfter(f)
	o.AddWriting(f)
	f.StringVarP(&file, "filename", "f", "", "file with the plan, or - for stdin")
	f.DurationVar(&maxAge, "max-age", 24*time.Hour, "refuse a plan that is older")
	f.BoolVar(&o.yes, "yes", false, yesHelp)
	f.BoolVar(&o.AllowMassRelease, "allow-mass-release", false, massReleaseHelp)
	return c
}

func (o *options) apply(ctx context.Context, file string, maxAge time.Duration) error {
	p, err := planfile.ReadFile(file)
	if err != nil {
		return err
	}
	r, cluster, err := o.reconciler(ctx)
	if err != nil {
		return err
	}
	j, err := r.Check(ctx)
	if err != nil {
		return err
	}
	uid, err := o.clusterUID(ctx)
	if err != nil {
		return planfile.NoUID(err)
	}
	if err := p.Check(uid, j.Observation.Now, maxAge); err != nil {
		return fmt.Errorf("plan %s: %w", file, err)
	}
	o.filter.Has, r.Options.Only = p.Has, p.Allows
	planned := r.PlanRetirement(j.Assessment, p.Retires())
	if o.retirements, _ = reconciler.CanBeRetired(planned); len(o.retirements) > 0 {
		if err := o.allow(ctx, cluster, o.retirements); err != nil {
			return err
		}
	}
	out, err := o.act(ctx, r, o.askToRun)
	if err != nil {
		return err
	}
	out, planned, failed := o.applyRetirements(ctx, r, out, planned, j.Assessment)
	isKnown := p.Complete(out)
	d := view.NewRunReport(out, false, o.filter)
	isKept := false
	if len(p.Pools) > 0 {
		retired := view.NewRetireReport(out, planned, false)
		d.Retirements, isKept = retired.Pools, retired.Kept()
	}
	err = o.printRun(ctx, out, d)
	switch {
	case err != nil && !errors.Is(err, errUnresolved):
	case failed != nil:
		return failed
	case isKept || !isKnown:
		return errUnresolved
	}
	return err
}

// applyRetirements deletes the pools of a plan that still may go, and adds what that releases to the result of the
// releases before. If the cluster cannot be read for that, it keeps them, and returns the error with what was done.
func (o *options) applyRetirements(
	ctx context.Context, r *reconciler.Reconciler, out *reconciler.Result, planned []*reconciler.Retirement,
	a *findings.Assessment,
) (*reconciler.Result, []*reconciler.Retirement, error) {
	can, pools := reconciler.CanBeRetired(planned)
	if o.trail != nil && len(planned) > 0 {
		defer o.trail.Start()()
	}
	r.DeclineRetirements(a, planned)
	if len(can) == 0 {
		return out, planned, nil
	}
	done, all, err := r.Retire(ctx, pools)
	if err != nil {
		reconciler.Keep(can, err)
		r.DeclineRetirements(a, can)
		return out, planned, fmt.Errorf("no pool was deleted: %w", err)
	}
	return out.Then(done), reconciler.WithoutOpen(planned, all), nil
}
