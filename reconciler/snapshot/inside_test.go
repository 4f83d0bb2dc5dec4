package snapshot_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

// outside is a folder beside which there is another, with a pool.
func outside(t *testing.T) (dir, pool string) {
	t.Helper()
	top := folder(t, map[string]string{"dir/pods.yaml": onePod, "elsewhere/pool.yaml": onePool})
	return filepath.Join(top, "dir"), filepath.Join(top, "elsewhere/pool.yaml")
}

const onePod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: x}\n"

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// What is not read counts as not there, so that a link out is no detail.
func TestLinks_ThatMayHideObjectsAreRefused(t *testing.T) {
	for name, target := range map[string]string{
		"relative.yaml": "../elsewhere/pool.yaml", "absolute.json": "", "folder": "../elsewhere", "folder.d": "../", "latest": "../elsewhere/pool.yaml", "pods": "../nowhere",
		"to-another-name.yaml": "data.txt", "to-nothing.yaml": "gone.txt",
	} {
		t.Run(name, func(t *testing.T) {
			dir, pool := outside(t)
			write(t, filepath.Join(dir, "pool.yaml"), onePool)
			write(t, filepath.Join(dir, "data.txt"), "x")
			if target == "" {
				target = pool
			}
			link(t, target, filepath.Join(dir, name))
			_, err := snapshot.Open(dir, noon, home)
			if err == nil {
				t.Fatal("it was opened")
			}
			for _, says := range []string{filepath.Join(dir, name), "which is not followed"} {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("the error does not say %q: %v", says, err)
				}
			}
		})
	}
}

func TestLinks_ToWhatIsReadAnywayAreSkipped(t *testing.T) {
	dir := folder(t, map[string]string{"data/pool.yaml": onePool, "data/other.yaml": strings.ReplaceAll(onePool, "10.0.0", "10.0.1")})
	link(t, "data/pool.yaml", filepath.Join(dir, "pool.yaml"))
	link(t, "data/other.yaml", filepath.Join(dir, "other.yaml"))
	link(t, "data", filepath.Join(dir, "same"))
	link(t, "../nowhere", filepath.Join(dir, "README"))
	if o := observe(t, open(t, dir)); len(o.Pools) != 2 || len(o.Unreadable) > 0 {
		t.Errorf("%d pools, unreadable %q", len(o.Pools), o.Unreadable)
	}
}
