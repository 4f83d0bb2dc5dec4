package snapshot_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf16"

	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

func openAt(dir string) (*snapshot.Snapshot, error) { return snapshot.Open(dir, noon, home) }

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	check(t, w.Close())
	return b.String()
}

// inUTF16 is a text as PowerShell writes it to a file.
func inUTF16(text string) string {
	b := []byte{0xff, 0xfe}
	for _, c := range utf16.Encode([]rune(text)) {
		b = binary.LittleEndian.AppendUint16(b, c)
	}
	return string(b)
}

func TestSkip_FilesWithoutObjects(t *testing.T) {
	dir := folder(t, map[string]string{
		"pool.yaml": onePool, "array.json": `[1, 2]`, "array.yaml": "- a\n- b\n", "empty.json": "", "empty.yaml": "",
		"text.yaml": "hello",
		"tabs.yaml": "a:\n\tb: c\n", "values.yaml": "replicas: 2\n", "metrics.json": "x{kind=\"Pod\"} 1\n",
		"broken.yaml": "kind: ConfigMap\ndata: [\n",
		"README":      "kind words\n", "core": "\x7fELF\x00\x01", "a.log": "kind: Pod\n", "objects.txt": "Kind: Pod\n",
		"audit.json.gz": zipped(t, `{"a":1}`), "b.tar.gz": "\x1f\x8b",
	})
	link(t, "nowhere", filepath.Join(dir, "latest"))
	link(t, "../../elsewhere.log", filepath.Join(dir, "log"))
	o := observe(t, open(t, dir))
	if len(o.Unreadable) > 0 || len(o.Warnings) != 1 || !strings.Contains(o.Warnings[0],
		"files skipped because they hold no Kubernetes objects: 17, for example "+filepath.Join(dir, "README")) {
		t.Errorf("unreadable %q, notes %q", o.Unreadable, o.Warnings)
	}
}

// Without a pod its addresses would be stale. A crash or a rotation may have put zeros before it.
func TestSkip_NoFileThatMayHaveAnObject(t *testing.T) {
	pod := runningPodAt("1")
	inJSON := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"default"}}`
	for name, text := range map[string]string{
		"cut.yaml": pod[:90], "cut.json": inJSON[:40], "cut-in-kind.json": `{"kind":"Po`, "cut-before-kind.json": `{"kind":`,
		"items.json": `[{"metadata":{"name":"a","namespace":"default"},"status":{"podIPs":[{"ip":"10.244.0.5"}]}}]`,
		"array.json": "[" + inJSON + "]", "array.yaml": "- " + indentedBy2(pod), "list.json": `{"kind":"PodList","items":[`,
		"quoted.yaml": "\"kind\": 'Lease'\nx: [\n", "spaces.json": `{ "kind" : "IPPool", }`, "utf16.json": inUTF16(inJSON),
		"bom.json":   "\xef\xbb\xbf" + inJSON,
		"zeros.json": "\x00\x00" + inJSON, "zeros-between.json": `{"kind":"ConfigMap"}` + "\x00" +
			inJSON, "zeros-between.yaml": `{"kind":"ConfigMap"}` + "\x00" + inJSON,
		"utf16-without-mark.json": "\x00" + inUTF16(inJSON)[2:],
		"pods":                    pod, "pods.txt": "# from the lab\n---\n" + pod, "pods.yaml.bak": pod,
		"10.0.0.0-24": onePool, "list": "apiVersion: v1\nitems:\n- " + indentedBy2(pod), "utf16.txt": inUTF16(pod),
		"pods.json": "", "x/core/pods.yaml": "# nothing\n", "nodes.yaml": "error", "pods/a/a.yaml": "",
		"whereabouts.cni.cncf.io/x/y.yaml": "- 1\n",
		"pods.json.gz":                     zipped(t, "{}"), "cut.yaml.gz": zipped(t, pod[:90]), "torn.yaml.gz": "\x1f\x8b",
		"a.yaml.xz": "\xfd7zXZ\x00", "a.json.zst": "\x28\xb5\x2f\xfd", "a.yml.bz2": "BZh9", "a.json.zip": "PK\x03\x04",
		"a.yaml.7z": "7z\xbc\xaf\x27\x1c", "a.YAML.GZ": zipped(t, pod),
	} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t, map[string]string{"pool.yaml": onePool, name: text})
			if _, err := openAt(dir); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, name)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestFolder_Pipe(t *testing.T) {
	dir := folder(t, map[string]string{"pool.yaml": onePool})
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Skip(err)
	}
	observe(t, open(t, dir))
	check(t, os.Rename(filepath.Join(dir, "pipe"), filepath.Join(dir, "pods.yaml")))
	if _, err := openAt(dir); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("got %v", err)
	}
}
