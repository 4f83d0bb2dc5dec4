package harness

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// A part is a program of another project, built from its Go module.
type part struct {
	name, pkg string
	tags      string
	variables string // -X flags for the linker
	seccomp   bool   // it needs C, and libseccomp
}

// A kit is a folder of programs that belong together, built when a test first needs one of them.
type kit struct {
	module    string // folder of the Go module, below e2e
	parts     []part
	manifests map[string]string // modules whose YAML goes beside the programs, with the folder in them
	debian    []string          // packages that are unpacked beside the programs
}

// core is what every cluster needs; the others are additions for some tests.
var (
	core = kit{
		module: "parts",
		parts: []part{
			{name: "kubeparts", pkg: "./cmd/kubeparts"},
			{name: "whereabouts", pkg: "github.com/k8snetworkplumbingwg/whereabouts/cmd"},
			{name: "macvlan", pkg: "github.com/containernetworking/plugins/plugins/main/macvlan"},
			{name: "loopback", pkg: "github.com/containernetworking/plugins/plugins/main/loopback"},
		},
		manifests: map[string]string{
			"github.com/k8snetworkplumbingwg/whereabouts":                          "doc/crds",
			"github.com/k8snetworkplumbingwg/network-attachment-definition-client": "artifacts",
		},
	}
	upstream = kit{module: "parts", parts: []part{
		{name: "ip-reconciler", pkg: "github.com/k8snetworkplumbingwg/whereabouts/cmd/reconciler"},
		{name: "ip-control-loop", pkg: "github.com/k8snetworkplumbingwg/whereabouts/cmd/controlloop"},
		{name: "node-slice-controller", pkg: "github.com/k8snetworkplumbingwg/whereabouts/cmd/nodeslicecontroller"},
	}}
	multus = kit{module: "parts", parts: []part{
		{name: "multus", pkg: "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus"},
		{name: "host-local", pkg: "github.com/containernetworking/plugins/plugins/ipam/host-local"},
		{name: "bridge", pkg: "github.com/containernetworking/plugins/plugins/main/bridge"},
	}}
	clusterKit = kit{module: "parts", parts: []part{{name: "clusterparts", pkg: "./cmd/clusterparts"}}}
	own        = kit{module: "harness/cmd", parts: []part{
		{name: "nodens", pkg: "./nodens"},
		{name: "pause", pkg: "./pause"},
		{name: "cniblocker", pkg: "./cniblocker"},
		{name: "workload", pkg: "./workload"},
	}}
	containerdV2 = kit{module: "containerd", parts: []part{
		{
			name: "containerd", pkg: "github.com/containerd/containerd/v2/cmd/containerd",
			tags: "no_btrfs,no_devmapper,no_zfs", variables: "-X github.com/containerd/containerd/v2/version.Version=2.4.2",
		},
		{name: "containerd-shim-runc-v2", pkg: "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"},
		{name: "ctr", pkg: "github.com/containerd/containerd/v2/cmd/ctr"},
		{
			name: "runc", pkg: "github.com/opencontainers/runc",
			tags: "seccomp,netgo,osusergo", variables: "-extldflags -static -X main.version=1.4.3", seccomp: true,
		},
	}}
	containerdV17 = kit{module: "containerd17", parts: []part{
		{
			name: "containerd", pkg: "github.com/containerd/containerd/cmd/containerd",
			tags:      "no_aufs,no_btrfs,no_devmapper,no_zfs",
			variables: "-X github.com/containerd/containerd/version.Version=1.7.35",
		},
		{name: "containerd-shim-runc-v2", pkg: "github.com/containerd/containerd/cmd/containerd-shim-runc-v2"},
		{name: "ctr", pkg: "github.com/containerd/containerd/cmd/ctr"},
		{
			name: "runc", pkg: "github.com/opencontainers/runc",
			tags: "seccomp,netgo,osusergo", variables: "-extldflags -static -X main.version=1.3.6", seccomp: true,
		},
	}}
	containerdDebian = kit{module: "containerd", debian: []string{"containerd", "runc"}}
	prometheus       = kit{module: "harness/cmd", debian: []string{"prometheus"}}
	// otherAPIs have the API servers on which `make test-oldest` and `make test-newest` run the tests.
	otherAPIs = map[string]kit{"oldest": apiServerOf("oldest", "v1.30.14"), "newest": apiServerOf("newest", "v1.37.2")}
)

// otherAPIEnv names the one of otherAPIs that replaces the API server of e2e/parts.
const otherAPIEnv = "IP_RECONCILE_API_SERVER"

// apiServerOf is the API server of a folder of e2e, whose go.mod has this version.
func apiServerOf(module, version string) kit {
	return kit{module: module, parts: []part{{
		name: "kube-apiserver", pkg: "k8s.io/kubernetes/cmd/kube-apiserver",
		variables: "-X k8s.io/component-base/version.gitVersion=" + version +
			" -X k8s.io/component-base/version.gitMinor=" + strings.Split(version, ".")[1],
	}}}
}

// buildFlags must not vary: with other flags the Go build cache is of no use.
var buildFlags = []string{"-trimpath", "-buildvcs=false"}

// linkFlags are for every program. Without the version the API server calls itself v0.0.0-master.
const linkFlags = "-s -w" +
	" -X k8s.io/component-base/version.gitVersion=v1.36.3" +
	" -X k8s.io/component-base/version.gitMajor=1" +
	" -X k8s.io/component-base/version.gitMinor=36" +
	" -X k8s.io/component-base/version.gitTreeState=clean"

// Upstream is the folder with whereabouts' own ip-reconciler and ip-control-loop, for comparison.
func Upstream(t testing.TB) string {
	t.Helper()
	dir, err := UpstreamPrograms()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// UpstreamPrograms is Upstream outside of tests.
func UpstreamPrograms() (folder string, err error) { return build(upstream) }

// BuildParts builds every part that the user's cache folder lacks.
func BuildParts() error {
	var failed []error
	for _, k := range []kit{core, clusterKit, upstream, multus, own, containerdV2, containerdDebian, prometheus} {
		_, err := build(k)
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// Promtool is the path of Debian's promtool.
func Promtool(t testing.TB) string {
	t.Helper()
	dir, err := build(prometheus)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "usr/bin/promtool")
}

// KubectlProgram is the path of a program that is kubectl when it is called so.
func KubectlProgram(t testing.TB) string {
	t.Helper()
	dir, err := build(core)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "kubeparts")
}

// UpstreamManifest is the path of a file of whereabouts' doc/crds, such as "daemonset-install.yaml" with the RBAC that
// a drop-in replacement must do with.
func UpstreamManifest(t testing.TB, name string) string {
	t.Helper()
	dir, err := build(core)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "manifests", "whereabouts", name)
}

// BuildProduct returns the folder with the product's commands, which it brings up to date, with more build flags than
// the release. Test processes share it.
func BuildProduct(name string, flags ...string) (folder string, err error) {
	e2e, err := e2eDir()
	if err != nil {
		return "", err
	}
	folder = filepath.Join(filepath.Dir(e2e), "bin", "e2e", name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(folder + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	env := []string{"GOBIN=" + folder}
	if slices.Contains(flags, "-race") {
		env = append(env, "CGO_ENABLED=1")
	}
	args := slices.Concat([]string{"install"}, buildFlags, []string{"-tags=grpcnotrace", "-ldflags=-s -w"}, flags,
		[]string{"./cmd/..."}) // the tags of the Makefile
	// Without its commit (buildFlags): with one, status would report a reconciler of another build.
	if _, err := runGo(filepath.Dir(e2e), env, args...); err != nil {
		return "", fmt.Errorf("building the product: %w", err)
	}
	return folder, nil
}

// build returns the folder with a kit. The folder's name depends on all sources, so an existing one is correct. Test
// processes that need it at the same time build it once.
func build(k kit) (string, error) {
	e2e, err := e2eDir()
	if err != nil {
		return "", err
	}
	source := filepath.Join(e2e, k.module)
	key, err := buildKey(source, k)
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place to keep the built programs (set HOME or XDG_CACHE_HOME): %w", err)
	}
	root := filepath.Join(cache, "ip-reconcile", "parts")
	dir := filepath.Join(root, key)
	if built(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(root, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if built(dir) {
		return dir, nil
	}
	temp, err := os.MkdirTemp(root, key+".")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	if err := buildInto(temp, source, k); err != nil {
		return "", err
	}
	built(temp) // unpacking made it as old as the package
	prune(root)
	return dir, os.Rename(temp, dir)
}

// built reports whether the folder exists, and marks it as used.
func built(dir string) bool {
	now := time.Now()
	return os.Chtimes(dir, now, now) == nil
}

// prune removes what was not used for a week: builds of other versions, and folders of killed builds.
func prune(root string) {
	entries, _ := os.ReadDir(root)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() && time.Since(info.ModTime()) > 7*24*time.Hour {
			os.RemoveAll(filepath.Join(root, e.Name()))
		}
	}
}

func buildInto(dir, source string, k kit) error {
	for _, p := range k.parts {
		began := time.Now()
		fmt.Fprintf(os.Stderr, "e2e: building %s (minutes, when the Go build cache is cold)\n", p.name)
		var env []string
		if p.seccomp {
			temp, err := os.MkdirTemp("", "e2e-libseccomp")
			if err != nil {
				return err
			}
			defer os.RemoveAll(temp)
			if env, err = seccompEnv(temp); err != nil {
				return fmt.Errorf("finding libseccomp for %s: %w", p.name, err)
			}
		}
		args := append([]string{"build"}, buildFlags...)
		args = append(args, "-ldflags", strings.TrimSpace(linkFlags+" "+p.variables), "-tags", p.tags, "-o",
			filepath.Join(dir, p.name), p.pkg)
		if _, err := runGo(source, env, args...); err != nil {
			return fmt.Errorf("building %s from %s: %w", p.name, p.pkg, err)
		}
		fmt.Fprintf(os.Stderr, "e2e: built %s in %.1fs\n", p.name, time.Since(began).Seconds())
	}
	if err := unpackDebian(dir, k.debian...); err != nil {
		return err
	}
	for module, folder := range k.manifests {
		out, err := runGo(source, nil, "mod", "download", "-json", module)
		if err != nil {
			return fmt.Errorf("fetching %s for its manifests: %w", module, err)
		}
		var info struct{ Dir string }
		if err := json.Unmarshal(out, &info); err != nil {
			return fmt.Errorf("reading what `go mod download -json %s` says: %w", module, err)
		}
		to := filepath.Join(dir, "manifests", filepath.Base(module))
		if err := os.CopyFS(to, os.DirFS(filepath.Join(info.Dir, folder))); err != nil {
			return fmt.Errorf("copying the manifests of %s: %w", module, err)
		}
	}
	return nil
}

// runGo runs the go command in a module, without the caller's flags and workspace.
func runGo(dir string, env []string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOOS=", "GOARCH=")
	cmd.Env = append(cmd.Env, env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("`go %s` in %s: %w\n%s", strings.Join(args, " "), dir, err, stderr.Bytes())
	}
	return stdout.Bytes(), nil
}

// buildKey hashes everything that the programs depend on: the module's sources and versions, the kit, the flags, the Go
// version and the architecture.
func buildKey(source string, k kit) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOARCH, buildFlags, linkFlags, k)
	err := filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		fmt.Fprintf(h, "%s %d\n", strings.TrimPrefix(path, source), len(content))
		h.Write(content)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("hashing the sources of the parts: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

// e2eDir finds the folder e2e from the working folder, which `go test` sets to that of the tested package.
func e2eDir() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "parts", "go.mod")); err == nil {
			return dir, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no parts/go.mod in %s or above: run the tests from a folder of the e2e module", wd)
		}
	}
}
