//go:build !slow && !cluster

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	oci "github.com/opencontainers/image-spec/specs-go/v1"
	spdx "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

const repositoryRoot = "../../.."

func try[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func contains(t *testing.T, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%q is not in\n%s", part, text)
	}
}

// tree copies the repository's files. Archives must not have the modes of the copy.
func tree(t *testing.T, folder string, mode fs.FileMode) string {
	t.Helper()
	folder = filepath.Join(t.TempDir(), folder)
	list := try(exec.Command("git", "-C", repositoryRoot, "ls-files", "-z", "-co", "--exclude-standard").Output())(t)
	for name := range strings.SplitSeq(strings.Trim(string(list), "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join(repositoryRoot, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		to := filepath.Join(folder, name)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, data, mode)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// released writes a release of a tree for PLATFORMS, else for this machine's alone.
func released(t *testing.T, source string) *release {
	t.Helper()
	r := &release{source: source, folder: filepath.Join(t.TempDir(), "dist"), image: "example.com/ip-reconcile",
		version: "9.8.7-test", revision: "abc"}
	if err := r.run("1795000000", cmp.Or(os.Getenv("PLATFORMS"), "linux/"+runtime.GOARCH)); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *release) read(t *testing.T, name string) string {
	t.Helper()
	return string(try(os.ReadFile(filepath.Join(r.folder, name)))(t))
}

// unpacked are the files of an archive, by name.
func (r *release) unpacked(t *testing.T, name string) map[string]file {
	t.Helper()
	all, text := map[string]file{}, io.Reader(strings.NewReader(r.read(t, name)))
	if !strings.HasSuffix(name, ".tar") {
		text = try(gzip.NewReader(text))(t)
	}
	for archive := tar.NewReader(text); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		all[try(header, err)(t).Name] = file{header.Name, fs.FileMode(header.Mode), try(io.ReadAll(archive))(t)}
	}
}

func TestRelease(t *testing.T) {
	t.Parallel()
	clone := tree(t, "elsewhere/clone", 0o755)
	git := exec.Command("sh", "-c", "git init -q && git add -A && git -c user.name=a -c user.email=b commit -qm c &&"+
		" git tag v1.2.3")
	git.Dir = clone
	if out, err := git.CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	r, other := released(t, clone), released(t, tree(t, "exported", 0o600))
	if a, b := r.read(t, "checksums.txt"), other.read(t, "checksums.txt"); a != b {
		t.Errorf("two trees differ:\n%s\n%s", a, b)
	}
	check := exec.Command("sha256sum", "--check", "--quiet", "checksums.txt")
	check.Dir = r.folder
	if out, err := check.CombinedOutput(); err != nil {
		t.Error(err, string(out))
	}
	p := r.platforms[0]
	t.Run("programs", func(t *testing.T) { r.testPrograms(t, p) })
	t.Run("plugin", func(t *testing.T) { r.testPlugin(t, p) })
	t.Run("images", func(t *testing.T) { r.testImages(t, p) })
	t.Run("chart and manifests", r.testDeploy)
	if notes := r.read(t, "notes.md"); !strings.Contains(notes, "### Added") || strings.Contains(notes, "## Unreleased") {
		t.Errorf("notes: %s", notes)
	}
}

func TestArchives(t *testing.T) {
	t.Parallel()
	r := &release{created: time.Unix(1795000000, 0).UTC()}
	all := []file{{"LICENSE", 0o644, []byte("free")}, {"ip-reconcile.exe", 0o755, []byte("MZ")}}
	for name, pack := range map[string]func([]file) ([]byte, error){"a.tar": r.tar, "a.tgz": r.tgz} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, try(pack(all))(t), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("tar", "-tf", path).CombinedOutput() // Go accepts an archive without an end
		if err != nil || string(out) != "LICENSE\nip-reconcile.exe\n" {
			t.Errorf("tar reads %s: %v: %s", name, err, out)
		}
	}
	text, got := try(r.zip(all))(t), ""
	for _, f := range try(zip.NewReader(bytes.NewReader(text), int64(len(text))))(t).File {
		got += fmt.Sprintf("%s %s %s %s\n", f.Name, f.Mode(), f.Modified.Format(time.DateOnly),
			try(io.ReadAll(try(f.Open())(t)))(t))
	}
	if want := "LICENSE -rw-r--r-- 2026-11-18 free\nip-reconcile.exe -rwxr-xr-x 2026-11-18 MZ\n"; got != want {
		t.Error(got)
	}
}

func (r *release) testPrograms(t *testing.T, p platform) {
	const MiB = 1 << 20
	for command, most := range map[string]int{"ip-reconcile": 50 * MiB, "ip-reconcile-agent": 20 * MiB,
		"ip-reconciler": 40 * MiB} {
		archive := r.archiveName(p, command)
		all := r.unpacked(t, archive)
		program := all[command]
		if size := len(program.data); size == 0 || size > most || program.mode != 0o755 || len(all) != 3 {
			t.Errorf("%s has %d bytes, of at most %d, and mode %o", command, size, most, program.mode)
		}
		path := filepath.Join(t.TempDir(), command)
		if err := os.WriteFile(path, program.data, 0o700); err != nil {
			t.Fatal(err)
		}
		contains(t, string(try(exec.Command(path, "--version").Output())(t)), "9.8.7-test (revision abc,")
		doc := v2_3.Document{}
		if err := spdx.ReadInto(strings.NewReader(r.read(t, archive+".spdx.json")), &doc); err != nil {
			t.Fatal(err)
		}
		used := slices.IndexFunc(doc.Packages, func(p *v2_3.Package) bool { return p.PackageName == "k8s.io/client-go" })
		sum := fmt.Sprintf("%x", sha256.Sum256(program.data))
		if used < 0 || doc.Packages[0].PackageChecksums[0].Value != sum {
			t.Errorf("the SBOM of %s: %+v", command, doc.Packages[0])
		}
	}
}

// testPlugin installs the plugin with krew from the archive that the manifest names, and calls it as kubectl does.
func (r *release) testPlugin(t *testing.T, p platform) {
	var plugin struct {
		Spec struct {
			Platforms []struct{ URI, SHA256 string }
		}
	}
	err := yaml.Unmarshal([]byte(r.read(t, "krew.yaml")), &plugin)
	if err != nil || len(plugin.Spec.Platforms) != len(r.platforms) {
		t.Fatal(err, plugin)
	}
	for _, of := range plugin.Spec.Platforms {
		contains(t, r.read(t, "checksums.txt"), of.SHA256+"  "+filepath.Base(of.URI)+"\n")
	}
	bin, root := t.TempDir(), t.TempDir()
	env := append(os.Environ(), "GOBIN="+bin, "KREW_ROOT="+root, "PATH="+root+"/bin:"+bin+":"+os.Getenv("PATH"))
	run := func(name string, args ...string) string {
		cmd := exec.Command("env", append([]string{name}, args...)...)
		cmd.Dir, cmd.Env = r.folder, env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	run("go", "install", "sigs.k8s.io/krew/cmd/krew@v0.4.3")
	if err := errors.Join(os.Symlink("krew", filepath.Join(bin, "kubectl-krew")), os.Symlink(harness.KubectlProgram(t),
		filepath.Join(bin, "kubectl"))); err != nil {
		t.Fatal(err)
	}
	run("kubectl", "krew", "install", "--manifest=krew.yaml", "--archive="+r.archiveName(p, "ip-reconcile"))
	contains(t, run("kubectl", "ip-reconcile", "version"), "9.8.7-test (revision abc,")
}

// testImages compares the images with what deploy/Dockerfile makes.
func (r *release) testImages(t *testing.T, p platform) {
	dockerfile := string(try(os.ReadFile(filepath.Join(r.source, "deploy/Dockerfile")))(t))
	users := regexp.MustCompile(`(?m)^USER (\S+)$`).FindAllStringSubmatch(dockerfile, -1)
	labels := map[string]string{}
	label := regexp.MustCompile(`(org\.opencontainers\.image\.\w+)="([^"]*)"`)
	for _, l := range label.FindAllStringSubmatch(dockerfile, -1) {
		labels[l[1]] = strings.NewReplacer("${VERSION}", r.version, "${REVISION}", r.revision).Replace(l[2])
	}
	for i, name := range []string{"ip-reconcile-drop-in", "ip-reconcile"} {
		folder := t.TempDir()
		for _, f := range r.unpacked(t, name+"-image_"+r.version+".tar") {
			to := filepath.Join(folder, f.name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, f.data, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		outer := try(try(layout.ImageIndexFromPath(folder))(t).IndexManifest())(t).Manifests
		index := try(try(layout.ImageIndexFromPath(folder))(t).ImageIndex(outer[0].Digest))(t)
		if err := validate.Index(index); err != nil || len(outer) != 1 {
			t.Error(err, outer)
		}
		contains(t, r.read(t, "images.txt"), "example.com/"+name+":"+r.version+"@"+outer[0].Digest.String()+"\n")
		var asSkopeo oci.Index
		raw := try(index.RawManifest())(t)
		if err := json.Unmarshal(raw, &asSkopeo); err != nil || !bytes.Equal(try(json.Marshal(asSkopeo))(t), raw) {
			t.Errorf("skopeo would replace the index: %v\n%s", err, raw)
		}
		manifest := try(index.IndexManifest())(t).Manifests[0]
		image := try(index.Image(manifest.Digest))(t)
		config := try(image.ConfigFile())(t)
		contains(t, dockerfile, `ENTRYPOINT ["`+strings.Join(config.Config.Entrypoint, `", "`)+`"]`)
		if config.Config.User != users[i][1] || !maps.Equal(config.Config.Labels, labels) ||
			config.Architecture != p.arch || manifest.Platform.Architecture != p.arch {
			t.Errorf("%s: %+v of %+v", name, config, manifest)
		}
		var copied []string
		for content := tar.NewReader(mutate.Extract(image)); ; {
			header, err := content.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if try(header, err)(t); header.Uid != 0 || header.Mode != 0o755 {
				t.Errorf("%+v", header)
			}
			copied = append(copied, "/src/bin/"+header.Name)
		}
		contains(t, dockerfile, "COPY --from=build "+strings.Join(slices.Sorted(slices.Values(copied)), " ")+" /\n")
	}
}

func (r *release) testDeploy(t *testing.T) {
	chart := try(loader.LoadFile(filepath.Join(r.folder, "ip-reconcile-"+r.version+".tgz")))(t)
	if m := chart.Metadata; m.Version != r.version || m.AppVersion != r.version || chart.Validate() != nil ||
		chart.Values["image"].(map[string]any)["repository"] != r.image || len(chart.CRDObjects()) != 1 ||
		!strings.Contains(m.Annotations["artifacthub.io/images"], r.image+":"+r.version+"@sha256:") {
		t.Errorf("chart: %+v", m)
	}
	pinned, _, _ := strings.Cut(r.read(t, "images.txt"), "\n")
	for form := range forms() {
		text, definitions := r.read(t, form+".yaml"), 0
		if strings.HasSuffix(form, "-with-agent") {
			definitions = 1
		}
		images := regexp.MustCompile(`(?m)^ +image: (.*)$`).FindAllStringSubmatch(text, -1)
		if len(images) != 1+definitions || strings.Count(text, "\nkind: CustomResourceDefinition\n") != definitions {
			t.Errorf("%s has %d images", form, len(images))
		}
		for _, image := range images {
			if image[1] != pinned {
				t.Errorf("%s: image %s", form, image[1])
			}
		}
	}
}
