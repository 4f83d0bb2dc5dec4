//go:build slow

package harness

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fresh is what a machine has not that never ran a cluster: what Kubernetes and
// containerd make where nobody tells them of another place.
var fresh = []string{"/usr/libexec/kubernetes", "/opt/containerd", "/opt/cni", "/opt/nri", "/etc/cni", "/etc/kubernetes", "/run/kubernetes"}

// alone runs a program on the machine's disk as it is, without what a fresh machine
// has not. What the program and its children write goes to folders of their own,
// which nobody else writes to. An overlay may lie on one other and not on two; the
// nodes of a cluster lay one on /etc.
const alone = `set -e
layers=$1 fresh=$2; shift 2
mount --make-rprivate /
places="usr opt srv var run"
[ "$(stat -f -c %T /)" = overlayfs ] || places="$places etc"
for place in $places; do
  mkdir -p "$layers/$place" "$layers/work/$place"
  mount -t overlay overlay -o "lowerdir=/$place,upperdir=$layers/$place,workdir=$layers/work/$place" "/$place"
done
rm -rf $fresh
exec "$@"`

// TestARunTouchesNothingOfTheMachine runs clusters in a mount namespace of their
// own, as on a machine that never had one, so that what others do to the machine
// meanwhile is not seen.
func TestARunTouchesNothingOfTheMachine(t *testing.T) {
	if kind := os.Getenv("E2E_ALONE"); kind != "" {
		bringUps[kind](t)
		return
	}
	if why := Unsupported(); why != "" {
		t.Skip(why)
	}
	for kind := range bringUps {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			buildAll(t)
			layers, before := t.TempDir(), kernelSettings()
			cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", alone, "alone", layers, strings.Join(fresh, " "),
				try(os.Executable()).must(t), "-test.run=^TestARunTouchesNothingOfTheMachine$")
			cmd.Env = append(os.Environ(), "E2E_ALONE="+kind)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			equal(t, "what is new on the machine", written(t, layers), []string{})
			for path, value := range kernelSettings() {
				if kubelets := tunables()[path]; value != before[path] && value == kubelets {
					t.Errorf("/%s was %q and is what a kubelet wants, %q", path, before[path], value)
				}
			}
		})
	}
}

// written are the files and folders that were made, by the layers of alone.
func written(t *testing.T, layers string) (paths []string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	check(t, err)
	elsewhere := []string{cache, os.TempDir()} // which may be below /var
	check(t, filepath.WalkDir(layers, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == filepath.Join(layers, "work") {
			return fs.SkipDir
		}
		place := strings.TrimPrefix(path, layers)
		below := func(dir string) bool { return strings.HasPrefix(place+"/", dir+"/") }
		if slices.ContainsFunc(elsewhere, below) {
			return fs.SkipDir
		}
		// A folder is copied when something in it changes, and a device marks
		// what was removed.
		_, err = os.Lstat(filepath.Join("/", place))
		if d.IsDir() && (err != nil || slices.ContainsFunc(fresh, below)) || d.Type().IsRegular() || d.Type()&fs.ModeSymlink != 0 {
			paths = append(paths, place)
		}
		return nil
	}))
	return paths
}

func kernelSettings() map[string]string {
	values := map[string]string{}
	for path := range tunables() {
		content, _ := os.ReadFile("/" + path)
		values[path] = string(content)
	}
	return values
}
