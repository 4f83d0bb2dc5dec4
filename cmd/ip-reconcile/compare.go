package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/reconciler/ranges"
)

const compareHelp = `
With --snapshot twice, check compares two clusters that may be on one segment (layer 2). It
prints the addresses that both record, reserve or carry on one network, and the ranges that
definitions of both assign. A network is the network_name, the master (or bridge) and the VLAN
of a definition. --same-network says that two definitions are of one. A definition that names
no master, and a pool without a definition, may be on any network: they are unknown, and so is
what a snapshot lacks. Exit code 0: nothing is in both; 1: something is, or may be.
`

// comparison are the flags of check that compare two clusters.
type comparison struct {
	snapshots    snapshots
	sameNetworks []string
}

// snapshots is the value of a flag --snapshot that may be given twice.
type snapshots struct {
	last *string // what other code reads
	all  []string
}

func (s *snapshots) Set(path string) error {
	*s.last, s.all = path, append(s.all, path)
	return nil
}

func (s *snapshots) String() string {
	if s.last == nil { // pflag asks a zero value
		return ""
	}
	return *s.last
}

func (s *snapshots) Type() string { return "string" }

func (c *comparison) add(f *pflag.FlagSet, snapshot *string) {
	c.snapshots.last = snapshot
	flag := f.Lookup("snapshot")
	flag.Value = &c.snapshots
	flag.Usage += "; given twice, compare two clusters"
	f.StringArrayVar(&c.sameNetworks, "same-network", nil,
		"of two snapshots, these definitions are of one network: LABEL/NAME=LABEL/NAME, where LABEL is the name of the "+
			"snapshot's file or folder, and NAME may have a namespace")
}

// comparing are the flags that mean something where two clusters are compared.
var comparing = []string{"snapshot", "same-network", "now", "pods-complete", "output", "no-headers", "agents",
	"agent-nodes", "unreachable-node-timeout", "trust-network-status", "reconciler-namespace", "log-level", "log-format"}

// isAsked reports whether two clusters are compared.
func (c *comparison) isAsked(f *pflag.FlagSet) (bool, error) {
	paths := c.snapshots.all
	switch {
	case len(paths) < 2 && f.Changed("same-network"):
		return false, errors.New("--same-network does nothing without two snapshots: give --snapshot twice")
	case len(paths) < 2:
		return false, nil
	case len(paths) > 2:
		return false, fmt.Errorf("--snapshot is given %d times: check compares two clusters, so run it for each two of them",
			len(paths))
	case slices.Contains(paths, ""):
		return false, errors.New("--snapshot is empty: give it a value, or leave it out")
	case filepath.Clean(paths[0]) == filepath.Clean(paths[1]):
		return false, fmt.Errorf("--snapshot %s is given twice: name the snapshots of two clusters", paths[0])
	}
	var err error
	f.Visit(func(flag *pflag.Flag) {
		if err == nil && !slices.Contains(comparing, flag.Name) {
			err = fmt.Errorf("--%s cannot be used with two snapshots, which are compared as a whole", flag.Name)
		}
	})
	return true, err
}

// statements are what --same-network says.
func (c *comparison) statements() (all []ranges.Statement, err error) {
	for _, text := range c.sameNetworks {
		a, b, ok := strings.Cut(text, "=")
		if !ok || a == "" || b == "" || strings.Contains(b, "=") {
			return nil, fmt.Errorf("--same-network %q: must be two definitions, for example a/storage=b/storage", text)
		}
		all = append(all, ranges.Statement{A: a, B: b})
	}
	return all, nil
}

// labels are the names of the files or folders, or the paths where both have one name.
func labels(paths []string) []string {
	names := lists.Map(paths, func(path string) string {
		if path == "-" {
			return "stdin"
		}
		return filepath.Base(path)
	})
	if names[0] == names[1] {
		return paths
	}
	return names
}

// compare prints what two clusters have in common.
func (o *options) compare(ctx context.Context, c *comparison) error {
	statements, err := c.statements()
	if err != nil {
		return err
	}
	var both [2]view.Compared
	for i, label := range labels(c.snapshots.all) {
		o.snapshot = c.snapshots.all[i]
		_, out, err := o.judge(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", label, err)
		}
		cluster := o.cluster
		cluster.UID, _ = o.clusterUID(ctx) // of files
		both[i] = view.Compared{Label: label, Cluster: cluster, Result: out}
	}
	of := func(c view.Compared) ranges.Cluster {
		return ranges.Cluster{Label: c.Label, Assessment: c.Assessment}
	}
	found, err := ranges.Compare(of(both[0]), of(both[1]), statements)
	if err != nil {
		return fmt.Errorf("--same-network %w", err)
	}
	d := view.NewComparison(both, c.sameNetworks, found)
	o.cluster, o.clusterUID = view.Cluster{Snapshot: strings.Join(c.snapshots.all, " and ")}, nil
	return o.print(ctx, answer{document: d, notes: d.Notes(), isUnresolved: !d.IsApart(),
		names:  func() []string { return lists.Map(d.Addresses, func(a view.SharedAddress) string { return a.IP }) },
		screen: func(s *screen.Screen) { s.Comparison(d) }})
}
