package snapshot

import (
	"archive/tar"
	"bytes"
	"errors"
	"testing"
)

// A small archive may unpack to any size: what is not read counts, too.
func TestAnArchiveThatUnpacksToTooMuchIsRefused(t *testing.T) {
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	for range 3 {
		if err := w.WriteHeader(&tar.Header{Name: "zeros.log", Size: 10_000, Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, 10_000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for title, c := range map[string]struct {
		limits limits
		fits   bool
	}{
		"all of it":        {limits{unpacked: int64(text.Len()), entries: 4}, true},
		"too many bytes":   {limits{unpacked: 20_000, entries: 4}, false},
		"too many entries": {limits{unpacked: int64(text.Len()), entries: 2}, false},
	} {
		a := &archive{name: "x.tar", r: bytes.NewReader(text.Bytes()), limits: c.limits}
		err := a.each(func(entry) error { return nil }, func(string) {})
		if (err == nil) != c.fits || err != nil && !errors.Is(err, errTooLarge) {
			t.Errorf("%s: %v", title, err)
		}
	}
}
