package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"testing"
)

// bundle are the files of a sysdump, by name.
func bundle(t testing.TB, path string) map[string]string {
	t.Helper()
	packed := try(gzip.NewReader(bytes.NewReader(try(os.ReadFile(path)).must(t)))).must(t)
	files := map[string]string{}
	for in := tar.NewReader(packed); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		check(t, err)
		files[head.Name] = string(try(io.ReadAll(in)).must(t))
	}
}
