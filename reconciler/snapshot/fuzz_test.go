package snapshot_test

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

// outsider is a pod that stands beside the snapshot, and in it only where a link leads there.
const outsider = "apiVersion: v1\nkind: Pod\nmetadata: {namespace: secret, name: outsider}\n"

func hasOutsider(o *facts.Observation) bool {
	return o.Pods[types.NamespacedName{Namespace: "secret", Name: "outsider"}] != nil
}

// FuzzAStreamIsReadAlikeTwiceOrRefused reads any text, archive or gzip. An accepted stream has a pool, is judged, and
// is read alike again.
func FuzzAStreamIsReadAlikeTwiceOrRefused(f *testing.F) {
	t := &testing.T{}
	archive := tarOf(t, map[string]string{"pool.yaml": onePool, "pods.yaml": runningPodAt("1"), "x.log": "x"})
	for _, text := range []string{onePool, onePool + "---\n" + runningPodAt("7"), archive, zipped(t, archive),
		zipped(t, onePool), archive[:700], "[" + onePool,
		`{"kind":"List","items":[{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","kind":"IPPool","metadata":{"name":"p"},` +
			`"spec":{"range":"10.0.0.0/24","allocations":{"5":{"id":"a","podref":"b/c"}}}},{"apiVersion":"v1",` +
			`"kind":"Pod"}]}{"kind":"Pod","kind":"Node"}`,
		"kind: SandboxReport\napiVersion: ip-reconcile.dev/v1alpha1\nmetadata: {name: a}\n---\n" + onePool} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 200_000 {
			return
		}
		first, err := snapshot.OpenStream("stdin", bytes.NewReader(text), noon, home)
		second, again := snapshot.OpenStream("stdin", bytes.NewReader(text), noon, home)
		if (err == nil) != (again == nil) {
			t.Fatalf("%v, and then %v", err, again)
		}
		if err != nil {
			return
		}
		a, b := observe(t, first), observe(t, second)
		if len(a.Pools) == 0 || !reflect.DeepEqual(a.Pods, b.Pods) || !reflect.DeepEqual(a.Pools, b.Pools) ||
			len(a.Reports.Or(nil)) != len(b.Reports.Or(nil)) {
			t.Fatalf("read as %d pools and %d pods, and then %d and %d", len(a.Pools), len(a.Pods), len(b.Pools), len(b.Pods))
		}
		judgetest.AssessAlone(a, facts.Policy{})
	})
}

// FuzzNothingOutsideOfAnArchiveIsRead gives an archive an entry of any name, kind and target.
func FuzzNothingOutsideOfAnArchiveIsRead(f *testing.F) {
	f.Add("../pods.yaml", "", byte(tar.TypeReg), outsider, "")
	f.Add("d/pods.yaml", "../../outside/pods.yaml", byte(tar.TypeSymlink), "", "")
	f.Add("d/x", "/proc/self/environ", byte(tar.TypeSymlink), "", "")
	f.Add("pods.yaml", "pool.yaml", byte(tar.TypeLink), "", "")
	f.Add("pods.yaml", "", byte(tar.TypeChar), "", "")
	f.Add("pods.yaml", "", byte(tar.TypeReg), "", "1000000000000")
	f.Add("a//./b/../pods.yaml", "", byte(tar.TypeReg), outsider, "")
	f.Fuzz(func(t *testing.T, name, link string, kind byte, content, realSize string) {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		head := &tar.Header{Name: name, Linkname: link, Typeflag: kind, Mode: 0o644, Format: tar.FormatPAX}
		if realSize != "" {
			head.PAXRecords = map[string]string{"GNU.sparse.realsize": realSize}
		}
		if kind == tar.TypeReg {
			head.Size = int64(len(content))
		}
		pool := &tar.Header{Name: "pool.yaml", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(onePool))}
		if w.WriteHeader(pool) != nil {
			t.Fatal("no archive")
		}
		_, _ = w.Write([]byte(onePool))
		if w.WriteHeader(head) != nil {
			return
		}
		_, _ = w.Write([]byte(content))
		if w.Close() != nil {
			return
		}
		opened, err := snapshot.OpenStream("x.tar", &out, noon, home)
		if err != nil {
			return
		}
		cleaned := filepath.Clean(strings.TrimLeft(name, "/"))
		if cleaned == ".." || strings.HasPrefix(cleaned, "../") {
			t.Fatalf("%q was accepted", name)
		}
		if kind == tar.TypeSymlink && (filepath.IsAbs(link) ||
			strings.HasPrefix(filepath.Join(filepath.Dir(cleaned), link), "..")) && filepath.Ext(link) == ".yaml" {
			t.Fatalf("a link to %q was accepted", link)
		}
		if o := observe(t, opened); hasOutsider(o) && (kind != tar.TypeReg || content != outsider &&
			!strings.Contains(content, "outsider")) {
			t.Fatalf("%q of kind %q brought a pod along", name, kind)
		}
	})
}

// FuzzNothingOutsideOfAFolderIsRead puts a link of any target into a folder, beside which
// another one lies.
func FuzzNothingOutsideOfAFolderIsRead(f *testing.F) {
	for _, target := range []string{"../outside/pods.yaml", "../outside", "pods/../../outside/pods.yaml",
		"/proc/self/environ", ".", "..", "pods.yaml", "pool.yaml", "a/../pool.yaml", "\x00", strings.Repeat("../", 50) +
			"etc/passwd"} {
		f.Add("pods.yaml", target)
		f.Add("pods", target)
		f.Add("a/b.json", target)
	}
	f.Fuzz(func(t *testing.T, name, target string) {
		if !filepath.IsLocal(name) || len(name) > 200 || len(target) > 1000 || name == "pool.yaml" {
			return
		}
		dir := t.TempDir()
		write(t, filepath.Join(dir, "outside", "pods.yaml"), outsider)
		write(t, filepath.Join(dir, "snapshot", "pool.yaml"), onePool)
		path := filepath.Join(dir, "snapshot", name)
		if os.MkdirAll(filepath.Dir(path), 0o755) != nil || os.Symlink(target, path) != nil {
			return
		}
		opened, err := snapshot.Open(filepath.Join(dir, "snapshot"), noon, home)
		if err == nil && hasOutsider(observe(t, opened)) {
			t.Fatalf("%q leads to %q, and was followed", name, target)
		}
	})
}
