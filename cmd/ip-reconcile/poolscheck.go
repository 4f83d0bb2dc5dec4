package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view/explain"
	"github.com/ip-reconcile/ip-reconcile/internal/fileform"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/ranges"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// poolsCheckOptions are the flags of pools check.
type poolsCheckOptions struct {
	options
	bounds     ranges.Bounds
	definition string // a file
	surge      string
	more       int
}

func newPoolsCheck(std streams) *cobra.Command {
	o := &poolsCheckOptions{options: options{streams: std, component: "pools"}}
	c := &cobra.Command{
		Use:   "check POOL --new-range RANGE | check [POOL] --definition FILE",
		Short: "Print what a new range or definition would mean, before it is there; read-only",
		Long: `Print what a definition that does not exist yet would mean for a pool: which addresses in use
it would not assign, which ones the next ADDs would assign a second time, and whether what
must move fits. Then it prints what to do, in which order. It is read-only.

The pool is named by its name, its range or an address in it. --new-range, --range-start,
--range-end and --exclude are as in a NetworkAttachmentDefinition, and all definitions of the
pool would get them. --definition has a whole NetworkAttachmentDefinition in a file: it would
replace the one of the same name, or be a new one.

An ADD takes the lowest address of the range that is not excluded and not recorded in the pool
of this very range and network_name. Another range has another pool, which is empty. Only with
enable_overlapping_ranges an ADD skips what the reservations of other pools keep. So an address
is assigned twice that an allocation of another pool, a pod, a guest, a sandbox or a Node has,
and that nothing keeps. NEXT ADD counts the ADDs until then, while none is released.

What is not known, as on a node without a fresh report, is printed as unknown, and never
taken for free. What is stale counts as used in FREE.

--add asks whether so many more pods fit. Whether a rolling update of all pods fits is always
printed, with --surge more pods of each ReplicaSet.

Exit code 0: nothing in use would be assigned twice; 1: something would be, or may be; 2: the
cluster could not be read, has no such pool, or the definition is none.
` + snapshotHelp,
		Example: `  ip-reconcile pools check 10.0.0.0-24 --new-range 10.0.0.0/25
  ip-reconcile pools check 10.0.0.0-24 --new-range 10.0.0.0/24 --exclude 10.0.0.128/25 --add 40
  ip-reconcile pools check 10.0.0.0-24 --new-range 10.0.0.0/16 --range-start 10.0.1.0
  ip-reconcile pools check --definition nad.yaml
  ip-reconcile pools check 10.0.0.0-24 --definition nad.yaml --snapshot ./must-gather -o json`,
		RunE: func(c *cobra.Command, args []string) error { return o.check(c.Context(), args) },
	}
	o.add(c.Flags(), "warn")
	o.AddConfirmAfter(c.Flags())
	f := c.Flags()
	addBounds(f, &o.bounds)
	f.StringVar(&o.definition, "definition", "", "the new NetworkAttachmentDefinition, in this file")
	f.IntVar(&o.more, "add", 0, "print whether so many more pods fit")
	f.StringVar(&o.surge, "surge", explain.DefaultSurge,
		"how many more pods of each ReplicaSet a rolling update starts: a number, or a part")
	c.ValidArgsFunction = func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return matching(typed, o.namesInTime(c.Context(), "").poolNames()), cobra.ShellCompDirectiveNoFileComp
	}
	return c
}

func addBounds(f *pflag.FlagSet, b *ranges.Bounds) {
	f.StringVar(&b.Range, "new-range", "", "the new range, for example 10.0.0.0/25 or 10.0.0.5-10.0.0.20/24")
	f.StringVar(&b.Start, "range-start", "", "the first address of the new range that is assigned")
	f.StringVar(&b.End, "range-end", "", "the last address of the new range that is assigned")
	f.StringSliceVar(&b.Exclude, "exclude", nil, "what the new range excludes: ranges or addresses")
}

func (o *poolsCheckOptions) check(ctx context.Context, args []string) error {
	surge := intstr.Parse(o.surge)
	_, err := intstr.GetScaledValueFromIntOrPercent(&surge, 1, true)
	switch {
	case len(args) > 1:
		return fmt.Errorf("pools check takes at most one name, range or address, got %d arguments; see '%s pools check "+
			"--help'", len(args), commandName())
	case (o.bounds.Range == "") == (o.definition == ""):
		return errors.New("pools check needs either --new-range or --definition")
	case o.bounds.Range != "" && len(args) == 0:
		return errors.New("--new-range needs the pool: its name, its range, or an address in it")
	case o.more < 0:
		return fmt.Errorf("--add %d: must not be negative", o.more)
	case err != nil || surge.IntValue() < 0:
		return fmt.Errorf("--surge %q: must be a number or a part, for example 25%%", o.surge)
	}
	const why = ": the file has all of the definition"
	if err := flags.RefuseWith(o.given, "definition", why[2:], "range-start", "range-end", "exclude"); err != nil {
		return err
	}
	var nad *ippool.NAD
	if o.definition != "" {
		if nad, err = readDefinition(o.definition); err != nil {
			return err
		}
	}
	r, cluster, err := o.reconciler(ctx)
	if err != nil {
		return err
	}
	if cluster != nil {
		cluster.AllGuests = true
	}
	checked, err := r.Check(ctx)
	if err != nil {
		return err
	}
	j := checked.Assessment
	all := usage.Of(j)
	p, err := o.proposal(j, all, nad, args)
	if err != nil {
		return err
	}
	q := explain.PoolChange{Proposal: p, More: o.more, Surge: surge}
	d, err := q.PoolCheck(view.PlannedResult(checked, r.Plan(ctx, j)), all, o.advisor())
	if err != nil {
		return err
	}
	return o.print(ctx, answer{document: d, notes: d.Notes, isUnresolved: !d.IsSafe(),
		names:  func() []string { return lists.Map(d.Twice, func(t view.TwiceAddress) string { return t.IP }) },
		screen: func(s *screen.Screen) { s.PoolCheck(d) }})
}

// proposal returns what is asked about, which is about one pool at most, or about those of the definition in a file.
func (o *poolsCheckOptions) proposal(
	j *findings.Assessment, all *usage.Pools, nad *ippool.NAD, args []string,
) (*ranges.Proposal, error) {
	var pools []*usage.Pool
	if len(args) > 0 {
		pools = all.Find(args[0])
		switch {
		case len(pools) == 0:
			return nil, fmt.Errorf("no pool has the name or range %q, or this address in its range: %s", args[0], all.Known())
		case len(pools) > 1 && nad == nil:
			return nil, fmt.Errorf("%q is of several pools, give the name of one: %s", args[0],
				view.AtMost(lists.Map(pools, (*usage.Pool).Ref), 10))
		}
	}
	if nad != nil {
		p, err := ranges.OfDefinition(nad, all, pools)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.definition, err)
		}
		return p, nil
	}
	p, err := ranges.OfRange(j.Facts(), all, pools[0], o.bounds)
	if err != nil {
		return nil, fmt.Errorf("--new-range %q: %w", o.bounds.Range, err)
	}
	return p, nil
}

// maxDefinition limits the bytes of a definition in a file. An API server accepts less.
const maxDefinition = 1 << 20

// readDefinition reads a NetworkAttachmentDefinition, in YAML or JSON. The file must have nothing else: what is not
// read may assign other ranges.
func readDefinition(name string) (*ippool.NAD, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxDefinition+1))
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(fileform.CheckEmpty(name, text), fileform.Check(name, text, false)); err != nil {
		return nil, err
	}
	if len(text) > maxDefinition {
		return nil, fmt.Errorf("%s is too large for a definition: it has more than %d bytes", name, maxDefinition)
	}
	u := &unstructured.Unstructured{}
	if err = fileform.CheckOne(text); err == nil {
		err = yaml.UnmarshalStrict(text, &u.Object)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if u.GroupVersionKind().Group != ippool.NADResource.Group || u.GetKind() != "NetworkAttachmentDefinition" ||
		u.GetName() == "" {
		return nil, fmt.Errorf("%s: must have one NetworkAttachmentDefinition of %s, with a name", name,
			ippool.NADResource.Group)
	}
	u.SetNamespace(cmp.Or(u.GetNamespace(), "default"))
	return ippool.Read[ippool.NAD](u), nil
}
