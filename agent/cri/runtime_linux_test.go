package cri_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/agent/hostdir"
)

// The folder of the socket is deleted and created again under its mount. A path through an open file leads to the
// deleted folder as a mount does.
func TestList_FolderOfTheSocketIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "containerd")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	open, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	r := dial(t, fmt.Sprintf("/proc/self/fd/%d/containerd.sock", open.Fd()))
	if _, err := r.List(t.Context()); err == nil || errors.Is(err, hostdir.ErrReplaced) {
		t.Errorf("while the runtime is away: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := r.List(t.Context()); !errors.Is(err, hostdir.ErrReplaced) {
		t.Errorf("after the folder was replaced: %v", err)
	}
}
