package snapshot_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
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
func TestALinkThatLeadsOutOfTheFolderIsReportedAndNotFollowed(t *testing.T) {
	for name, target := range map[string]string{
		"relative.yaml": "../elsewhere/pool.yaml", "absolute.json": "", "folder": "../elsewhere", "folder.d": "../", "latest": "../elsewhere/pool.yaml", "pods": "../nowhere",
	} {
		t.Run(name, func(t *testing.T) {
			dir, pool := outside(t)
			write(t, filepath.Join(dir, "pool.yaml"), onePool)
			if target == "" {
				target = pool
			}
			link(t, target, filepath.Join(dir, name))
			_, err := snapshot.Open(dir, noon, home)
			if err == nil {
				t.Fatal("it was opened")
			}
			for _, says := range []string{filepath.Join(dir, name), "leads out of the folder"} {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("the error does not say %q: %v", says, err)
				}
			}
		})
	}
}

func TestALinkThatStaysInTheFolderIsFollowedAndStaysALink(t *testing.T) {
	dir := folder(t, map[string]string{"data/pool.txt": onePool})
	link(t, "data/pool.txt", filepath.Join(dir, "pool.yaml"))
	link(t, "data", filepath.Join(dir, "same"))
	link(t, "../nowhere", filepath.Join(dir, "README"))
	release(t, open(t, dir), "10.0.0.0-24", "5")
	if text := read(t, filepath.Join(dir, "data/pool.txt")); strings.Contains(text, "c5") {
		t.Errorf("it was not written: %s", text)
	}
	if info, err := os.Lstat(filepath.Join(dir, "pool.yaml")); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("it is no link any more: %v %v", info, err)
	}
}

// Somebody may put a link in the place of the file or of its folder after it was read.
func TestNothingIsWrittenOutsideTheFolder(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, dir, elsewhere string){
		"a file": func(t *testing.T, dir, elsewhere string) {
			link(t, filepath.Join(elsewhere, "pool.yaml"), filepath.Join(dir, "pools/pool.yaml"))
		},
		"a folder": func(t *testing.T, dir, elsewhere string) {
			if err := os.Remove(filepath.Join(dir, "pools")); err != nil {
				t.Fatal(err)
			}
			link(t, elsewhere, filepath.Join(dir, "pools"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, pool := outside(t)
			inside := filepath.Join(dir, "pools/pool.yaml")
			write(t, inside, onePool)
			f := open(t, dir)
			p := poolNamed(t, observe(t, f), "10.0.0.0-24")
			err := f.Hold(t.Context(), "", nil, func(context.Context, *reconciler.Hold) error {
				if err := add(t, f, p, "77"); err != nil {
					return err
				}
				if err := os.Remove(inside); err != nil {
					return err
				}
				replace(t, dir, filepath.Dir(pool))
				return nil
			})
			if err == nil || !strings.Contains(err.Error(), "leads out of the folder") {
				t.Errorf("the error is %v", err)
			}
			same(t, "the file outside", read(t, pool), onePool)
			if left, _ := filepath.Glob(filepath.Join(filepath.Dir(pool), ".*")); len(left) > 0 {
				t.Errorf("left outside: %q", left)
			}
		})
	}
}

// Names of pools and networks come from the snapshot, which may be anybody's.
func TestAReservationWhoseNameIsAPathIsNotWritten(t *testing.T) {
	for _, names := range [][2]string{
		{"x", "../../escaped"}, {"../..", "escaped"}, {"x", "a/b"}, {"x", ""}, {"x", ".."}, {"", "a"}, {"x", "A b"},
	} {
		dir := folder(t, map[string]string{"in/pool.yaml": onePool})
		f := open(t, filepath.Join(dir, "in"))
		u := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "OverlappingRangeIPReservation",
			"metadata": map[string]any{"namespace": names[0], "name": names[1]}, "spec": map[string]any{"podref": "default/p"},
		}}
		err := f.Hold(t.Context(), "", nil, func(ctx context.Context, _ *reconciler.Hold) error { return f.CreateReservation(ctx, u) })
		if err == nil || !strings.Contains(err.Error(), "create reservation") {
			t.Errorf("%q: %v", names, err)
		}
		all, _ := filepath.Glob(dir + "/*")
		within, _ := filepath.Glob(dir + "/in/*")
		if len(all) != 1 || len(within) != 1 {
			t.Errorf("%q: there are %q and %q", names, all, within)
		}
	}
}
