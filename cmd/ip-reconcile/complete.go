package main

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

const (
	// completeWithin is how long a shell is kept waiting at most.
	completeWithin = 3 * time.Second
	// mostCompletions is how many a shell is given at most.
	mostCompletions = 500
)

// completions completes the command's flags in a shell.
func (o *options) completions(c *cobra.Command) {
	o.Completions(c)
	flags.Complete(c, "output", append(outputs(), jsonPathPrefix)...)
	_ = c.MarkFlagFilename("snapshot") // a folder, or an archive
	if c.Flags().Lookup("pool") == nil {
		return
	}
	_ = c.RegisterFlagCompletionFunc("pool", o.completePools)
	for flag, words := range map[string][]string{
		"verdict": report.Verdicts(), "reason": slices.Concat(judge.ReasonNames(), report.Kinds()),
		"fail-on": slices.Concat(report.Verdicts(), judge.ReasonNames(), report.Kinds(), []string{report.FailOnNothing}),
	} {
		_ = c.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return nextOf(typed, words), cobra.ShellCompDirectiveNoFileComp
		})
	}
}

// nextOf completes the last of a list of words.
func nextOf(typed string, words []string) (found []string) {
	before := typed[:strings.LastIndex(typed, ",")+1]
	for _, w := range words {
		if full := before + w; len(full) >= len(typed) && strings.EqualFold(full[:len(typed)], typed) {
			found = append(found, full)
		}
	}
	return limited(found)
}

// completePools completes the last of a list of pools.
func (o *options) completePools(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, p := range o.poolsInTime(c.Context()) {
		if strings.Contains(typed[strings.LastIndex(typed, ",")+1:], "/") {
			names = append(names, p.Ref())
		} else {
			names = append(names, p.Name)
		}
	}
	return nextOf(typed, names), cobra.ShellCompDirectiveNoFileComp
}

// completePool completes the pool that a command is about.
func (o *options) completePool(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || strings.Contains(typed, ",") {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return o.completePools(c, args, typed)
}

// completeAddresses completes an address that a pool records, with the pod that has it.
func (o *options) completeAddresses(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var found []string
	for _, p := range o.poolsInTime(c.Context()) {
		for _, a := range p.Allocations {
			if text := a.Address.String(); a.Address.IsValid() && strings.HasPrefix(text, typed) {
				found = append(found, cobra.CompletionWithDesc(text, a.PodRef))
			}
		}
	}
	return limited(found), cobra.ShellCompDirectiveNoFileComp
}

func limited(found []string) []string {
	slices.Sort(found)
	found = slices.Compact(found)
	return found[:min(len(found), mostCompletions)]
}

// poolsInTime are the pools of the cluster or the snapshot that the flags name; none where
// they cannot be had, or not in time: there is no place for an error in a shell's completion.
func (o *options) poolsInTime(ctx context.Context) []*ippool.Pool {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	pools, _ := o.poolsOf(ctx)
	return pools
}

func (o *options) poolsOf(ctx context.Context) ([]*ippool.Pool, error) {
	if o.snapshot == "-" {
		return nil, nil // it is read once
	}
	if o.snapshot != "" {
		folder, err := readSnapshot(o.snapshot, time.Time{}, "")
		if err != nil {
			return nil, err
		}
		observed, err := folder.List(ctx)
		if err != nil {
			return nil, err
		}
		return observed.Pools, nil
	}
	log, err := o.Logger(io.Discard)
	if err != nil {
		return nil, err
	}
	o.Timeout = completeWithin
	cluster, _, err := o.Connect("completion", log)
	if err != nil {
		return nil, err
	}
	return cluster.Pools(ctx)
}
