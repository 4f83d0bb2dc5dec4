package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

func (o *options) openSnapshot(r *reconciler.Reconciler) error {
	var now time.Time
	if o.now != "" {
		var err error
		if now, err = time.Parse(time.RFC3339, o.now); err != nil {
			return fmt.Errorf("--now %q: must be a time as in 2026-11-20T10:00:00Z", o.now)
		}
	}
	source, err := readSnapshot(o.snapshot, now, o.Namespace())
	if err != nil {
		return err
	}
	r.Source, r.Options.PodsComplete = source, o.podsComplete
	o.cluster = func(context.Context) document.Cluster { return document.Cluster{Snapshot: o.snapshot} }
	return nil
}

// readSnapshot reads a folder or a file, or stdin where its name is "-".
func readSnapshot(path string, now time.Time, namespace string) (*snapshot.Snapshot, error) {
	if path != "-" {
		return snapshot.Open(path, now, namespace)
	}
	if isTerminal(os.Stdin) {
		return nil, errors.New("--snapshot - reads stdin, which is a terminal: pipe YAML, JSON or a tar archive into it")
	}
	return snapshot.OpenStream("stdin", os.Stdin, now, namespace)
}
