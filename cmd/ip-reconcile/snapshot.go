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
	folder, err := readSnapshot(o.snapshot, now, o.Namespace())
	if err != nil {
		return err
	}
	r.Source, r.Writer, r.Options.StaticSource, r.Options.PodsComplete = folder, folder, true, o.podsComplete
	o.cluster = func(context.Context) document.Cluster { return document.Cluster{Snapshot: o.snapshot} }
	return nil
}

// readSnapshot reads a folder or a file, or stdin where its name is "-".
func readSnapshot(path string, now time.Time, namespace string) (*snapshot.Folder, error) {
	if path != "-" {
		return snapshot.Open(path, now, namespace)
	}
	if isTerminal(os.Stdin) {
		return nil, errors.New("--snapshot - reads stdin, which is a terminal: pipe YAML, JSON or a tar archive into it")
	}
	return snapshot.OpenStream("stdin", os.Stdin, now, namespace)
}

// checkWritable refuses to begin to write to a snapshot that can only be read.
func (o *options) checkWritable(r *reconciler.Reconciler) error {
	if folder, ok := r.Writer.(*snapshot.Folder); ok && !folder.Writable() {
		return fmt.Errorf("--snapshot %s: only a folder can be written to: unpack it and give the folder, or only print what would be done (run --dry-run, recover without --yes)", o.snapshot)
	}
	return nil
}
