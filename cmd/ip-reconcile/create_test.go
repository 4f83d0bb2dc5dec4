package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCreate(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	text := func(w io.Writer) error { _, err := io.WriteString(w, "text"); return err }
	check(t, create(path("new"), text))
	if info, err := os.Stat(path("new")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v (%v), want it readable for its owner alone", info, err)
	}
	write(t, path("kept"), "kept")
	for _, target := range []string{"kept", "missing"} {
		check(t, os.Symlink(path(target), path("link-to-"+target)))
	}
	for _, name := range []string{"kept", "link-to-kept", "link-to-missing"} {
		if err := create(path(name), text); !errors.Is(err, os.ErrExist) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want that it exists", name, err)
		}
	}
	if kept, err := os.ReadFile(path("kept")); string(kept) != "kept" || err != nil {
		t.Errorf("the file that was there has %q (%v)", kept, err)
	}
	if _, err := os.Stat(path("missing")); err == nil {
		t.Error("a link was followed")
	}
	if err := create(path("half"), func(w io.Writer) error { _ = text(w); return io.ErrUnexpectedEOF }); err == nil {
		t.Error("no error after half a file")
	}
	if _, err := os.Stat(path("half")); err == nil {
		t.Error("half a file remains")
	}
}
