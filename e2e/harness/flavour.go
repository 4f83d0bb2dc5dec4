package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// A Flavour is a containerd of some version, with its runc.
type Flavour struct {
	Name     string
	programs kit
	config   string // to fill in
	runc     string // below the folder of programs
	bin      string
}

var (
	// ContainerdV2 is containerd 2 and runc, built from their modules.
	ContainerdV2 = Flavour{Name: "containerd v2", programs: containerdV2, config: configV3, bin: ".", runc: "runc"}
	// ContainerdV17 is containerd 1.7 and runc 1.3, built from their modules.
	ContainerdV17 = Flavour{Name: "containerd v1.7", programs: containerdV17, config: configV2, bin: ".", runc: "runc"}
	// ContainerdDebian is containerd 1.6 and runc 1.1 as Debian 12 packages them.
	ContainerdDebian = Flavour{Name: "Debian's containerd", programs: containerdDebian, config: configV2, bin: "usr/bin",
		runc: "usr/sbin/runc"}
)

// OtherRuntimes reports whether `make test-runtimes` runs the tests: on containerd 1.7, and with thick Multus.
func OtherRuntimes() bool { return os.Getenv("IP_RECONCILE_RUNTIMES") == "other" }

// Flavours are the containerds on which the tests run.
func Flavours() []Flavour {
	if OtherRuntimes() {
		return []Flavour{ContainerdV17}
	}
	return []Flavour{ContainerdV2, ContainerdDebian}
}

// Unsupported returns why this containerd cannot run here, or "".
func (f Flavour) Unsupported() string {
	if why := Unsupported(); why != "" {
		return why
	}
	needs := map[string]string{"apt-get": "apt", "dpkg": "dpkg"}
	if len(f.programs.debian) == 0 {
		needs = map[string]string{"gcc": "gcc", "pkg-config": "pkg-config"}
	}
	for tool, pkg := range needs {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Sprintf("%s needs %q (package %s): %v", f.Name, tool, pkg, err)
		}
	}
	return ""
}

// The folders, socket and log are containerd's defaults where the node has its own. The rest is for a machine that is
// itself restricted.
const (
	pauseImage = "e2e.invalid/pause:1"

	configV3 = `version = 3
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "` + pauseImage + `"
[plugins."io.containerd.cri.v1.images".registry]
  config_path = "/etc/containerd/certs.d"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = [%[1]q]
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    base_runtime_spec = "%[3]s"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "%[2]s"
      SystemdCgroup = false
`
	// containerd 1 knows one folder of plugins.
	configV2 = `version = 2
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + pauseImage + `"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %[1]q
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "%[2]s"
      SystemdCgroup = false
`
)

// toml is containerd's configuration. Containers are made from containerd's own base spec if base is empty, and
// otherwise, with containerd 2, from that file.
func (f Flavour) toml(bin, plugins, base string) []byte {
	return fmt.Appendf(nil, f.config, plugins, filepath.Join(bin, f.runc), base)
}

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
