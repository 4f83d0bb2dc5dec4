package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A volume is one of a ConfigMap with one file, as kubelet makes and changes it:
// the file is a link into a folder, to which a link leads that is replaced
// (Kubernetes v1.36, pkg/volume/util/atomic_writer.go).
type volume struct {
	dir, file string
	versions  int
}

func newVolume(t *testing.T) *volume { return &volume{dir: t.TempDir()} }

// swap replaces the content of the file; "" takes the file away.
func (v *volume) swap(t testing.TB, content string) {
	t.Helper()
	old := fmt.Sprintf("..%d", v.versions)
	v.versions++
	next := fmt.Sprintf("..%d", v.versions)
	check(t, os.Mkdir(filepath.Join(v.dir, next), 0o755))
	if content != "" {
		check(t, os.WriteFile(filepath.Join(v.dir, next, v.file), []byte(content), 0o644))
	}
	check(t, os.Symlink(next, filepath.Join(v.dir, "..data_tmp")))
	check(t, os.Rename(filepath.Join(v.dir, "..data_tmp"), filepath.Join(v.dir, "..data")))
	if v.versions == 1 {
		check(t, os.Symlink(filepath.Join("..data", v.file), filepath.Join(v.dir, v.file)))
	}
	check(t, os.RemoveAll(filepath.Join(v.dir, old)))
}
