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
	"strings"
	"testing"
	"time"
)

// A part is a program of another project, built in the module e2e/parts.
type part struct{ name, pkg string }

// core is what every cluster needs; upstream is what tests compare with, and is
// built only when one asks for it.
var (
	core = []part{
		{"kubeparts", "./cmd/kubeparts"},
		{"whereabouts", "github.com/k8snetworkplumbingwg/whereabouts/cmd"},
		{"macvlan", "github.com/containernetworking/plugins/plugins/main/macvlan"},
		{"loopback", "github.com/containernetworking/plugins/plugins/main/loopback"},
	}
	upstream = []part{
		{"ip-reconciler", "github.com/k8snetworkplumbingwg/whereabouts/cmd/reconciler"},
	}
)

// manifests are the modules whose YAML goes beside the programs, with the folder in them.
var manifests = map[string]string{
	"github.com/k8snetworkplumbingwg/whereabouts":                          "doc/crds",
	"github.com/k8snetworkplumbingwg/network-attachment-definition-client": "artifacts",
}

// buildFlags must not vary: with other flags the Go build cache is of no use.
// Without the version the API server calls itself v0.0.0-master.
var buildFlags = []string{"-trimpath", "-buildvcs=false", "-ldflags", "-s -w" +
	" -X k8s.io/component-base/version.gitVersion=v1.36.3" +
	" -X k8s.io/component-base/version.gitMajor=1" +
	" -X k8s.io/component-base/version.gitMinor=36" +
	" -X k8s.io/component-base/version.gitTreeState=clean"}

// UpstreamReconciler is the path of whereabouts' own reconciler, for comparison.
func UpstreamReconciler(t testing.TB) string {
	t.Helper()
	dir, err := build(upstream)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, upstream[0].name)
}

// UpstreamManifest is the path of a file of whereabouts' doc/crds, such as
// "daemonset-install.yaml" with the RBAC that a drop-in replacement has to live with.
func UpstreamManifest(t testing.TB, name string) string {
	t.Helper()
	dir, err := build(core)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "manifests", "whereabouts", name)
}

// build returns the folder with the parts. The folder is named after everything
// that goes into them, so one that exists is right; test processes that need it
// at the same time build it once.
func build(parts []part) (string, error) {
	source, err := partsModule()
	if err != nil {
		return "", err
	}
	key, err := buildKey(source, parts)
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
	if err := buildInto(temp, source, parts); err != nil {
		return "", err
	}
	prune(root)
	return dir, os.Rename(temp, dir)
}

// built says whether the folder is there, and marks it as used.
func built(dir string) bool {
	now := time.Now()
	return os.Chtimes(dir, now, now) == nil
}

// prune removes what was not used for a week: builds of other versions, and
// folders of builds that were killed.
func prune(root string) {
	entries, _ := os.ReadDir(root)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() && time.Since(info.ModTime()) > 7*24*time.Hour {
			os.RemoveAll(filepath.Join(root, e.Name()))
		}
	}
}

func buildInto(dir, source string, parts []part) error {
	for _, p := range parts {
		began := time.Now()
		fmt.Fprintf(os.Stderr, "e2e: building %s (minutes, when the Go build cache is cold)\n", p.name)
		args := append(append([]string{"build"}, buildFlags...), "-o", filepath.Join(dir, p.name), p.pkg)
		if _, err := runGo(source, args...); err != nil {
			return fmt.Errorf("building %s from %s: %w", p.name, p.pkg, err)
		}
		fmt.Fprintf(os.Stderr, "e2e: built %s in %.1fs\n", p.name, time.Since(began).Seconds())
	}
	if &parts[0] != &core[0] {
		return nil
	}
	for module, folder := range manifests {
		out, err := runGo(source, "mod", "download", "-json", module)
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

// runGo runs the go command in the parts module, on that module's terms: flags
// and workspaces of the caller are for other modules.
func runGo(dir string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOOS=", "GOARCH=")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("`go %s` in %s: %w\n%s", strings.Join(args, " "), dir, err, stderr.Bytes())
	}
	return stdout.Bytes(), nil
}

// buildKey hashes what decides about the programs: the module's sources and
// versions, the parts, the flags, the Go version and the architecture.
func buildKey(source string, parts []part) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOARCH, buildFlags, parts, manifests)
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

// partsModule finds e2e/parts from the working folder, which `go test` sets to
// that of the tested package.
func partsModule() (string, error) {
	e2e, err := e2eDir()
	return filepath.Join(e2e, "parts"), err
}

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
