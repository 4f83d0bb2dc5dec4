package snapshot_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

// A file that cannot be replaced: its place is taken by a folder with something
// in it, over which no file can be renamed.
func TestAFileThatCannotBeReplacedIsAnErrorAndLeavesNothingBehind(t *testing.T) {
	dir := folder(t, map[string]string{"pool.yaml": onePool})
	f := open(t, dir)
	release(t, f, "10.0.0.0-24", "6")
	path := filepath.Join(dir, "pool.yaml")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(path, "inside"), "whole")
	if err := tryToRelease(t, f); err == nil {
		t.Fatal("no error")
	}
	same(t, "what was in the way", read(t, filepath.Join(path, "inside")), "whole")
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("beside it there are %v, %v: a half-written file stayed", entries, err)
	}
	// The way is free again: the next hold writes what this one could not.
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	hold(t, f, func(context.Context, *reconciler.Hold) error { return nil })
	p := poolNamed(t, observe(t, open(t, dir)), "10.0.0.0-24")
	if len(p.Allocations) > 0 {
		t.Errorf("the file has %d entries", len(p.Allocations))
	}
}

// What is written is made of the file as it is by then, and not of what was read
// of it: an edit by somebody else is neither lost nor overruled.
func TestAFileThatSomebodyEditedSinceItWasReadKeepsTheEdit(t *testing.T) {
	for title, c := range map[string]struct {
		edit     string
		released bool
	}{
		"another field":         {strings.Replace(onePool, "generation: 9", "generation: 10", 1), true},
		"the entry itself":      {strings.Replace(onePool, "id: c5", "id: c7", 1), false},
		"another pool there":    {strings.Replace(onePool, "name: 10.0.0.0-24", "name: other", 1), false},
		"the pool stands later": {"kind: ConfigMap\n---\n" + onePool, false},
		"nothing in it":         {"", false},
		"no YAML any more":      {"{", false},
	} {
		t.Run(title, func(t *testing.T) {
			dir := folder(t, map[string]string{"pool.yaml": onePool})
			f := open(t, dir)
			write(t, filepath.Join(dir, "pool.yaml"), c.edit)
			err := tryToRelease(t, f)
			equal(t, fmt.Sprintf("released (%v)", err), err == nil, c.released)
			if c.released {
				onlyGone(t, c.edit, read(t, dir+"/pool.yaml"), `    "5":`, `      id: c5`, `      ifname: net1`, `      podref: default/a`)
			} else {
				same(t, "the file", read(t, dir+"/pool.yaml"), c.edit)
			}
		})
	}
}

// The folder's own place is gone, so that not even the new file can be begun:
// the old one, wherever it is now, is as it was.
func TestAFailedWriteLeavesTheOldFileWhole(t *testing.T) {
	dir := folder(t, map[string]string{"sub/pool.yaml": onePool, "b/other.yaml": "kind: Pod\nmetadata: {name: a}\n"})
	f := open(t, dir)
	moved := filepath.Join(dir, "moved")
	if err := os.Rename(filepath.Join(dir, "sub"), moved); err != nil {
		t.Fatal(err)
	}
	if err := tryToRelease(t, f); err == nil {
		t.Error("no error")
	}
	same(t, "the file", read(t, filepath.Join(moved, "pool.yaml")), onePool)
}

func tryToRelease(t *testing.T, f *snapshot.Folder) error {
	t.Helper()
	p := poolNamed(t, observe(t, f), "10.0.0.0-24")
	patch, err := ippool.RemovePatch(p, []ippool.Allocation{*p.Find("5")})
	if err != nil {
		t.Fatal(err)
	}
	return f.Hold(t.Context(), "kube-system", nil, func(ctx context.Context, _ *reconciler.Hold) error { _, err := f.PatchPool(ctx, p, patch); return err })
}

// The new file takes the old one's place as a whole: whoever reads the old one
// meanwhile, as a backup does, reads it to its end and never a half of each.
func TestAFileIsReplacedAndNotWrittenOver(t *testing.T) {
	dir := folder(t, map[string]string{"pool.yaml": onePool})
	old, err := os.Open(filepath.Join(dir, "pool.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	release(t, open(t, dir), "10.0.0.0-24", "5")
	text, err := io.ReadAll(old)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the old file", string(text), onePool)
}
