package snapshot_test

import (
	"archive/tar"
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

// tarOf is an archive of files, and of what else has a header.
func tarOf(t *testing.T, files map[string]string, others ...*tar.Header) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		others = append(others, &tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg})
	}
	for _, head := range others {
		check(t, w.WriteHeader(head))
		if head.Typeflag != tar.TypeReg {
			continue
		}
		if _, err := w.Write([]byte(files[head.Name])); err != nil {
			t.Fatal(err)
		}
	}
	check(t, w.Close())
	return b.String()
}

func openText(text string) (*snapshot.Snapshot, error) {
	return snapshot.OpenStream("stdin", strings.NewReader(text), noon, home)
}

func TestArchive_ReadAsItsFolder(t *testing.T) {
	tree := mustGatherTree()
	archive := tarOf(t, tree)
	plain, packed := folder(t, map[string]string{"x.tar": archive})+"/x.tar", folder(t,
		map[string]string{"x.tar.gz": zipped(t, archive)})+"/x.tar.gz"
	for _, path := range []string{plain, packed} {
		o := observe(t, open(t, path))
		judgedAs(t, o, judge.InUse, judge.Stale)
		if len(o.Warnings) == 0 || !strings.Contains(strings.Join(o.Warnings, "\n"),
			"files skipped because they hold no Kubernetes objects: 23, for example "+path+": ") {
			t.Errorf("notes %q", o.Warnings)
		}
	}
}

func TestStream_DetectedByItsContent(t *testing.T) {
	inJSON := `{"apiVersion":"v1","kind":"List","items":[` + podOfList[:1] + `"apiVersion":"v1","kind":"Pod",` +
		podOfList[1:] + `]}` + "\n"
	pool := `{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","kind":"IPPool","metadata":{"name":"p",` +
		`"namespace":"kube-system"},"spec":{"range":"10.0.0.0/24","allocations":{"5":{"id":"c5","podref":"default/a"},` +
		`"6":{"id":"c6","podref":"default/b"}}}}`
	const node = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"w1"},"status":{"conditions":[{"type":"Ready",` +
		`"status":"True"}]}}` + "\n"
	inYAML := onePool + "---\n" + runningPodAt("7") + "---\n" + node
	for title, text := range map[string]string{
		"YAML": inYAML, "JSON after JSON": inJSON + node + pool, "gzip": zipped(t, inYAML),
		"a tar archive": tarOf(t, dumpTree()),
	} {
		f, err := openText(text)
		if err != nil {
			t.Errorf("%s: %v", title, err)
			continue
		}
		judgedAs(t, observe(t, f), judge.InUse, judge.Stale)
	}
	for title, text := range map[string]string{
		"nothing": "", "text": "error: You must be logged in to the server\n", "cut": onePool + "---\n" +
			runningPodAt("7")[:90], "an array": "[" + pool + "]", "cut JSON": inJSON + pool[:50],
		"zstd": "\x28\xb5\x2f\xfd0000", "zip": "PK\x03\x04", "cut gzip": zipped(t, onePool)[:60],
	} {
		if _, err := openText(text); err == nil || !strings.Contains(err.Error(), "stdin") {
			t.Errorf("%s: %v", title, err)
		}
	}
}

func TestArchive_Truncated(t *testing.T) {
	archive := tarOf(t, map[string]string{"a/pool.yaml": onePool, "b/pods.yaml": runningPodAt("1")})
	for at := 600; at < len(archive)-1024; at += 256 {
		if _, err := openText(archive[:at]); err == nil {
			t.Errorf("cut at %d of %d: accepted", at, len(archive))
		}
	}
	packed := zipped(t, archive)
	for at := 20; at < len(packed); at += 50 {
		if _, err := openText(packed[:at]); err == nil {
			t.Errorf("packed, cut at %d of %d: accepted", at, len(packed))
		}
	}
}

// What is behind the mark of an archive's end may have objects, as a second archive has, and tar does not read it.
func TestArchive_MoreBehindItsEnd(t *testing.T) {
	first := tarOf(t, map[string]string{"pool.yaml": onePool, "a.yaml": podCopy("9", "10.0.0.5", "Running")})
	second := tarOf(t, map[string]string{"b.yaml": runningPodAt("7")})
	for what, text := range map[string]string{
		"a second archive": first + second, "both packed": zipped(t, first+second),
		"each packed": zipped(t, first) + zipped(t, second), "objects": first + runningPodAt("7"),
	} {
		if _, err := openText(text); err == nil || !strings.Contains(err.Error(), "stdin has more behind the mark") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := openText(first + strings.Repeat("\x00", 10<<10)); err != nil { // tar pads a record
		t.Error(err)
	}
}

// A file that ends in zeros is no mark of the archive's end.
func TestArchive_TruncatedBehindZeros(t *testing.T) {
	whole := tarOf(t, map[string]string{"a/pool.yaml": onePool, "b/core": strings.Repeat("\x00", 2048),
		"c/pods.yaml": runningPodAt("1")})
	at := strings.Index(whole, "c/pods.yaml")
	for _, text := range []string{whole[:at], whole[:at] + strings.Repeat("\x00", 512)} {
		if _, err := openText(text); err == nil || !strings.Contains(err.Error(), "the mark of its end") {
			t.Errorf("cut at %d of %d: %v", len(text), len(whole), err)
		}
	}
}

func TestArchive_LinksAndPathsOutside(t *testing.T) {
	files := map[string]string{"d/pool.yaml": onePool, "d/data.txt": "x"}
	for title, c := range map[string]struct {
		head *tar.Header
		says string
	}{
		"a path above it": {&tar.Header{Name: "../pods.yaml", Typeflag: tar.TypeReg}, "outside"},
		"a link of another name": {&tar.Header{Name: "d/latest", Linkname: "/etc/pods.yaml", Typeflag: tar.TypeSymlink},
			"not followed"},
		"a hard link": {&tar.Header{Name: "d/same.yaml", Linkname: "d/pool.yaml", Typeflag: tar.TypeLink},
			"--hard-dereference"},
		"a device":        {&tar.Header{Name: "d/pods.yaml", Typeflag: tar.TypeChar}, "not a regular file"},
		"a link to a log": {&tar.Header{Name: "d/log", Linkname: "/var/log/x.log", Typeflag: tar.TypeSymlink}, ""},
	} {
		f, err := openText(tarOf(t, files, c.head))
		if c.says == "" {
			if err != nil || len(observe(t, f).Unreadable) > 0 {
				t.Errorf("%s: %v", title, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", title, err)
		}
	}
}

// A file that is packed and cut is never a shorter one, alone and in a folder.
func TestPacked_Truncated(t *testing.T) {
	packed := zipped(t, "apiVersion: v1\nitems:\n- "+indentedBy2(onePool)+"- "+indentedBy2(runningPodAt("1"))+
		"kind: List\nmetadata:\n  resourceVersion: \"\"\n")
	if _, err := openText(packed); err != nil {
		t.Fatal(err)
	}
	for n := range len(packed) {
		if _, err := openText(packed[:n]); err == nil {
			t.Errorf("%d of %d bytes are judged", n, len(packed))
		}
	}
	for _, n := range []int{1, 5, len(packed) / 2, len(packed) - 9, len(packed) - 4, len(packed) - 1} {
		dir := folder(t, map[string]string{"pool.yaml": onePool, "x.yaml.gz": packed[:n]})
		if _, err := openAt(dir); err == nil || !strings.Contains(err.Error(), "x.yaml.gz") {
			t.Errorf("%d of %d bytes in a folder: %v", n, len(packed), err)
		}
	}
}
