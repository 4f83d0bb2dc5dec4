package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// unpackDebian fetches packages with apt and unpacks them into the folder. Nothing is installed: no script of theirs
// runs and no service starts.
func unpackDebian(dir string, packages ...string) error {
	if len(packages) == 0 {
		return nil
	}
	debs, err := os.MkdirTemp("", "e2e-debs")
	if err != nil {
		return err
	}
	defer os.RemoveAll(debs)
	download := func() ([]byte, error) {
		cmd := exec.Command("apt-get", append([]string{"download", "-q"}, packages...)...)
		cmd.Dir = debs
		return cmd.CombinedOutput()
	}
	out, err := download()
	if err != nil { // apt's lists may be old
		if _, err = command("apt-get", "update", "-q"); err == nil {
			out, err = download()
		}
	}
	if err != nil {
		return fmt.Errorf("fetching Debian's %v: %w\n%s", packages, err, out)
	}
	files, err := filepath.Glob(filepath.Join(debs, "*.deb"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if _, err := command("dpkg", "-x", f, dir); err != nil {
			return err
		}
	}
	return nil
}

// seccompEnv is the environment in which the Go command builds with libseccomp: the machine's, or one that is unpacked
// into the folder.
func seccompEnv(dir string) ([]string, error) {
	env := []string{"CGO_ENABLED=1"}
	if exec.Command("pkg-config", "--exists", "libseccomp").Run() == nil {
		return env, nil
	}
	if err := unpackDebian(dir, "libseccomp-dev"); err != nil {
		return nil, err
	}
	found, err := filepath.Glob(filepath.Join(dir, "usr/lib/*/pkgconfig"))
	if err != nil || len(found) == 0 {
		return nil, fmt.Errorf("libseccomp-dev has no pkgconfig folder: %w", err)
	}
	// The key of the Go build cache lacks what pkg-config says, and has CGO_LDFLAGS: a package that was built with another
	// folder, which is removed, is not used.
	return append(env, "PKG_CONFIG_SYSROOT_DIR="+dir, "PKG_CONFIG_PATH="+found[0],
		"CGO_LDFLAGS=-O2 -g -L"+filepath.Dir(found[0])), nil
}
