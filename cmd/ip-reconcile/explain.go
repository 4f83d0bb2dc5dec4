package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/suggest"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view/explain"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/words"
	"github.com/ip-reconcile/ip-reconcile/internal/fileform"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

func newExplain(std streams) *cobra.Command {
	o := &options{streams: std, component: "explain"}
	var file, namespace string
	c := &cobra.Command{
		Use:   "explain IP | NAMESPACE/POD | node/NAME | pool/NAME | CONTAINER_ID | WORD ... | -f FILE",
		Short: "Explain addresses, pods, nodes, pools or words, and what you can do; read-only",
		Long: `Print the evidence on an address, a pod, a node or a pool, the rule behind each verdict,
the gates against each release, and what you can do: commands with the real names
filled in. explain is read-only.

A pod is NAMESPACE/POD, pod/NAMESPACE/POD, or POD with -n. A pool is pool/NAME,
pool/NAMESPACE/NAME or its range, for example 10.0.0.0/24. What 'kubectl get -o name' prints
is taken, too. A name alone is looked for among pools, nodes and pods. A container ID is that
of a sandbox, or its first 12 digits.

A word is one that is printed: a verdict, reason, finding, refusal, or state of a sandbox or
an address. It is explained without a cluster.

A printed command runs on any machine with a kubeconfig, unless explain names the node to
run it on. With --snapshot give the --context of the cluster that the snapshot is of.
Without it the commands have CONTEXT_OF_THAT_CLUSTER in its place.

With -f explain prints for each address of a file, one on each line, whether it is Free,
for example to import machines that keep their addresses. Else it is InUse, Held, Stale,
Reserved, Excluded by the definitions, of a definition that has NoPool there yet,
OutsideEveryPool, or Unknown without definitions. An address in several pools has a row for
each: it may be Free in one of them. The row has the pod of the allocation and of the
reservation, and the pods, guests and Nodes that carry the address.
An address is InUse, too, if only a pod, guest or Node has it, for example by static IPAM.
All addresses of a file are answered by one read of the cluster. -o csv prints the columns
address, state, pool, pod, reserved_by and carried_by.

Exit code 0: something is recorded or known; 1: nothing is; 2: the cluster could not be
read. With -f, 0: all are Free; 1: one is not.
` + snapshotHelp,
		Example: `  ip-reconcile explain 10.0.0.7
  ip-reconcile explain -n default web-0 web-1
  ip-reconcile explain PodGone EtcdRestored
  ip-reconcile explain node/worker-1
  ip-reconcile explain pool/10.0.0.0-24
  ip-reconcile explain 2001:db8::7 --snapshot ./must-gather
  echo 10.0.0.9 | ip-reconcile explain -f -
  ip-reconcile explain -f addresses.txt -o csv`,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case file != "" && len(args) == 0:
				return o.explainFile(c.Context(), file)
			case file != "" || len(args) == 0:
				return suggest.SeeHelp(fmt.Sprintf(
					"explain takes addresses, pods, nodes, pools or words, or -f alone, got %d arguments", len(args)), c.CommandPath())
			}
			return o.explain(c.Context(), namespace, args)
		},
	}
	o.add(c.Flags(), "warn")
	o.AddConfirmAfter(c.Flags())
	o.addPodNamespace(c.Flags(), &namespace)
	c.Flags().StringVarP(&file, "filename", "f", "", "print the state of each address in this file, or - for stdin")
	o.completeNames(c, true)
	return c
}

func (o *options) explain(ctx context.Context, namespace string, args []string) error {
	if namespace == "" && slices.ContainsFunc(args, words.Has) {
		return o.explainWords(ctx, args)
	}
	var subjects []explain.Subject
	for _, text := range args {
		s, err := explain.ParseSubjectIn(namespace, text)
		if err != nil {
			return orWord(text, err)
		}
		subjects = append(subjects, s)
	}
	r, checked, err := o.judge(ctx)
	if err != nil {
		return err
	}
	var all []*view.ExplainReport
	for _, s := range subjects {
		if s, err = s.Resolve(checked.Assessment); err != nil {
			return orWord(s.Name, err)
		}
		all = append(all, o.explainJudged(ctx, r, checked, explain.Question{Subject: s}))
	}
	a := answer{
		document: all[0], notes: all[0].Notes,
		isUnresolved: slices.ContainsFunc(all, func(d *view.ExplainReport) bool { return !d.Found }),
		names: func() (names []string) {
			for _, d := range all {
				names = append(names, d.Addresses(true)...)
			}
			return names
		},
		screen: func(s *screen.Screen) {
			for _, d := range all {
				if len(all) > 1 {
					s.Line("\n=== %s ===", d.Subject.Name)
				}
				s.Explain(d)
			}
		},
	}
	if len(all) > 1 {
		a.document = view.NewExplainReports(all)
	}
	return o.print(ctx, a)
}

// orWord returns an error for what is no subject. Where it is like a printed word, that is what it says.
func orWord(text string, err error) error {
	if meant := suggest.Words(text, words.Known()...); len(meant) > 0 {
		return fmt.Errorf("%q%s", text, suggest.Question("", meant))
	}
	return err
}

// explainWords explains printed words, without a cluster.
func (o *options) explainWords(ctx context.Context, args []string) error {
	if err := o.printing.check(o.given); err != nil {
		return err
	}
	var found []view.Word
	for _, text := range args {
		meanings := words.Find(text)
		if len(meanings) == 0 {
			meant := suggest.Question("", suggest.Words(text, words.Known()...))
			if _, err := explain.ParseSubject(text); err == nil && meant == "" {
				meant = ": words and objects cannot be mixed, explain them one after the other"
			}
			return fmt.Errorf("%q is no printed word%s", text, meant)
		}
		found = append(found, meanings...)
	}
	return o.print(ctx, answer{
		document: view.NewWordReport(found),
		names:    func() []string { return lists.Map(found, func(w view.Word) string { return w.Word }) },
		screen:   func(s *screen.Screen) { s.Words(found) },
	})
}

func (o *options) explainFile(ctx context.Context, file string) error {
	o.hasCSV = true
	read := os.ReadFile
	if file == "-" {
		read = func(string) ([]byte, error) { return io.ReadAll(os.Stdin) }
	}
	text, err := read(file)
	if err != nil {
		return err
	}
	if err := fileform.Check(file, text, false); err != nil {
		return err
	}
	var asked []netip.Addr
	for i, line := range strings.Split(strings.TrimPrefix(string(text), fileform.UTF8Mark), "\n") {
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
	_, checked, err := o.judge(ctx)
	if err != nil {
		return err
	}
	d := explain.NewAddressReport(checked, asked)
	return o.print(ctx, answer{
		document: d, notes: d.Notes, names: d.Free, isUnresolved: len(d.Free()) < len(d.Addresses), csv: d.CSV,
		screen: func(s *screen.Screen) { s.Addresses(d) },
	})
}

// explainJudged answers a question about a judgement. The question has the subject, and what to pick of it.
func (o *options) explainJudged(
	ctx context.Context, r *reconciler.Reconciler, checked *reconciler.Result, q explain.Question,
) *view.ExplainReport {
	j := checked.Assessment
	q.Result, q.Advisor, q.Snapshot = view.PlannedResult(checked, r.Plan(ctx, j)), o.advisor(), o.snapshot != ""
	recent, err := r.Breaker(ctx, j)
	if err != nil {
		j.Observation.Warnings = append(j.Observation.Warnings, fmt.Sprintf("the breaker's count could not be read: %v", err))
	}
	q.Recent = recent
	return explain.NewReport(q)
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
		"reconciler-namespace", "lease-namespace", "agents", "agent-nodes", "trust-network-status",
		"unreachable-node-timeout", "confirm-after",
	} {
		if flag := o.given.Lookup(name); flag != nil && flag.Changed {
			a.Flag(name, flag.Value.String())
		}
	}
	return a
}
