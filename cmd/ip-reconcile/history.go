package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/clusterflags"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view/explain"
	"github.com/ip-reconcile/ip-reconcile/internal/fileform"
	"github.com/ip-reconcile/ip-reconcile/reconciler/audit"
)

func newHistory(std streams) *cobra.Command {
	o := &options{streams: std, component: "history"}
	var since, file string
	var verify bool
	c := &cobra.Command{
		Use:   "history [IP | NAMESPACE/POD | pool/NAME]",
		Short: "Print what was released, repaired, refused and paused, by whom and why; read-only",
		Long: `Print the records of releases, repairs, refusals by a person and pauses, the newest last.
For one address, pod or pool history also prints the evidence in words; -o json has it
as it was judged. The ConfigMaps ip-reconcile-history-0 to -7 keep some 5,000 records.

--verify judges the evidence of each record again, which must give the same verdict, and
checks that no record is missing. It does not show edits: whoever may write these
ConfigMaps can replace all of them. For an auditor have --audit-log append to a file that
is shipped away.

Exit code 0: printed; 1: --verify found a fault; 2: the history could not be read.
`,
		Example: `  ip-reconcile history --since 7d
  ip-reconcile history 10.0.0.7
  ip-reconcile history default/web-0 -o json | jq '.records[].evidence'
  ip-reconcile history --verify`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			has := func(*audit.Record) bool { return true }
			if len(args) > 0 {
				subject, err := explain.ParseSubject(args[0])
				if err != nil {
					return err
				}
				if subject.Kind == explain.Node {
					return fmt.Errorf("history %s: records do not name nodes: give an address, a pod, a pool or a container ID",
						args[0])
				}
				has = subject.Has
			}
			age, err := parseAge(since)
			if err != nil || age < 0 {
				return fmt.Errorf("--since %q: must be an age, for example 7d or 12h", since)
			}
			lines, now, err := o.history(c.Context(), file)
			if err != nil {
				return err
			}
			d := view.NewHistoryReport(lines, file != "", now, func(r *audit.Record) bool {
				return has(r) && !r.Time.Before(now.Add(-age))
			})
			return o.print(c.Context(), answer{
				document: d, names: d.Addresses, isUnresolved: verify && len(d.Faults) > 0,
				screen: func(s *screen.Screen) { s.History(d, len(args) > 0, verify) },
			})
		},
	}
	f := c.Flags()
	o.addWithoutNode(f, "warn")
	f.StringVar(&since, "since", "30d", "how old the records may be, for example 7d or 12h")
	f.StringVarP(&file, "filename", "f", "", "read this file of --audit-log instead of the cluster")
	f.BoolVar(&verify, "verify", false, "judge all evidence again and check that no record is missing")
	o.completeNames(c, true)
	return c
}

// parseAge parses a duration, or a number of days as in 7d.
func parseAge(text string) (time.Duration, error) {
	if days, isDays := strings.CutSuffix(text, "d"); isDays {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

// checkLog returns an error for a file without any record. It is another file, or the records were taken away.
func checkLog(file string, lines []audit.Line) error {
	isRecord := func(l audit.Line) bool { return l.Err == nil && l.What != "" && l.Seq > 0 }
	switch {
	case len(lines) == 0:
		return fmt.Errorf("%s is empty: no record was written to it, or all were removed", file)
	case slices.ContainsFunc(lines, isRecord):
		return nil
	}
	return fmt.Errorf("%s is no file of --audit-log: no line of it is a record, which has what was done and a number",
		file)
}

// history reads all records, and the time of the API server.
func (o *options) history(ctx context.Context, file string) (_ []audit.Line, now time.Time, err error) {
	if file != "" {
		useless := flags.RefuseWith(o.given, "filename", "which is read instead of a cluster", "context", "kubeconfig",
			"reconciler-namespace", "request-timeout")
		if err := cmp.Or(o.printing.check(o.given), useless); err != nil {
			return nil, now, err
		}
		f, err := os.Open(file)
		if err != nil {
			return nil, now, fmt.Errorf("--filename: %w", err)
		}
		defer f.Close()
		o.cluster.Snapshot = file
		in := bufio.NewReader(f)
		head, _ := in.Peek(fileform.Head) // less where there is less
		if err := fileform.Check(file, head, false); err != nil {
			return nil, now, err
		}
		lines, err := audit.ReadLog(file, in)
		return lines, time.Now(), cmp.Or(err, checkLog(file, lines))
	}
	_, cluster, err := o.reconciler(ctx)
	if err != nil {
		return nil, now, err
	}
	lines, err := clusterflags.History(cluster).Lines(ctx)
	return lines, cluster.NowOrLocal(), err
}
