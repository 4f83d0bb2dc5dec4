package snapshot_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

const onePod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: x, uid: u}\n"

func link(t *testing.T, target, path string) {
	t.Helper()
	check(t, os.Symlink(target, path))
}

// An object that is not read counts as not existing. So a link that may lead to objects is refused, unless its target
// is read anyway.
func TestLinks_OfAFolder(t *testing.T) {
	for name, c := range map[string]struct {
		target    string
		isRefused bool
	}{
		"relative.yaml": {"../elsewhere/pool.yaml", true}, "absolute.json": {"/nowhere/pool.json",
			true}, "folder": {"../elsewhere", true}, "folder.d": {"../", true},
		"latest": {"../elsewhere/pool.yaml", true}, "pods": {"../nowhere", true}, "to-another-name.yaml": {"data.txt",
			true}, "to-nothing.yaml": {"gone.txt", true},
		"same.yaml": {"pool.yaml", false}, "same": {"pool.yaml", false}, "the-folder": {".", false}, "README": {"../nowhere",
			false}, "log": {"data.txt", false},
	} {
		top := folder(t, map[string]string{"dir/pods.yaml": onePod, "dir/pool.yaml": onePool, "dir/data.txt": "x",
			"elsewhere/pool.yaml": onePool})
		dir := filepath.Join(top, "dir")
		link(t, c.target, filepath.Join(dir, name))
		s, err := snapshot.Open(dir, noon, home)
		if c.isRefused && (err == nil || !strings.Contains(err.Error(), filepath.Join(dir, name)) ||
			!strings.Contains(err.Error(), "which is not followed")) {
			t.Errorf("%s to %s: %v", name, c.target, err)
		}
		if !c.isRefused && (err != nil || len(observe(t, s).Pools) != 1 || len(observe(t, s).Unreadable) > 0) {
			t.Errorf("%s to %s: %v", name, c.target, err)
		}
	}
}
