package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
)

// packedSample is the sample as a .tgz.
func packedSample(t *testing.T) string {
	t.Helper()
	var text bytes.Buffer
	zip := gzip.NewWriter(&text)
	w := tar.NewWriter(zip)
	check(t, w.AddFS(os.DirFS(sample)))
	check(t, w.Close())
	check(t, zip.Close())
	path := filepath.Join(t.TempDir(), "sample.tgz")
	write(t, path, text.String())
	return path
}

// stdin has the commands of a test read a file on stdin.
func stdin(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	check(t, err)
	was := os.Stdin
	os.Stdin = f
	t.Cleanup(func() { os.Stdin = was; f.Close() })
}

// verdictsOf are all verdicts of check, by pool and address.
func verdictsOf(t *testing.T, args ...string) map[string]string {
	t.Helper()
	code, out, errs := run(t, append([]string{"check", "-o", "json"}, args...)...)
	var d view.CheckReport
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatalf("exit code %d: %v: %s", code, err, errs)
	}
	all := map[string]string{}
	for _, a := range d.Allocations {
		all[a.Pool+" "+a.IP+" "+a.PodRef] = a.Verdict.String() + " " + a.Reason.String()
	}
	return all
}

func TestSnapshot_ArchiveAndStdin(t *testing.T) {
	want, archive := verdictsOf(t, "--snapshot", sample), packedSample(t)
	if len(want) < 20 {
		t.Fatalf("the sample has %d allocations", len(want))
	}
	equalVerdicts := func(how string, got map[string]string) {
		t.Helper()
		if !maps.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", how, got, want)
		}
	}
	equalVerdicts("the archive", verdictsOf(t, "--snapshot", archive))
	stdin(t, archive)
	equalVerdicts("stdin", verdictsOf(t, "--snapshot", "-"))
}
