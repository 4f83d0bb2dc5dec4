package snapshot

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
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

// Zeros unpack to a thousand times what they were packed to.
func TestAStreamThatUnpacksToFarMoreThanItIsIsRefused(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(make([]byte, 4<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for freely, refused := range map[int64]bool{1 << 20: true, 4 << 20: false} {
		u, err := unpack("x.gz", bytes.NewReader(packed.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		u.freely = freely
		if n, err := io.Copy(io.Discard, u); errors.Is(err, errTooLarge) != refused || refused && n > 2<<20 {
			t.Errorf("%d bytes of %d, %v", n, packed.Len(), err)
		}
	}
}

// A sparse file of an archive is larger than what the archive has of it.
func TestASparseFileOfAnArchiveIsReadOnlyWhereItsHeadIs(t *testing.T) {
	for _, head := range []*tar.Header{
		{Typeflag: tar.TypeGNUSparse, Size: 1 << 40},
		{Typeflag: tar.TypeReg, Size: 1 << 40, PAXRecords: map[string]string{"GNU.sparse.realsize": "1099511627776"}},
	} {
		for name, refused := range map[string]bool{"pods.yaml": true, "x.log": false} {
			head.Name = name
			a := &archive{name: "x.tar"}
			err := a.entry(head, nil, &archiveLinks{archive: a, files: map[string]bool{}}, func(entry) error { return nil }, func(string) {})
			if (err != nil) != refused {
				t.Errorf("%s of type %q: %v", name, head.Typeflag, err)
			}
		}
	}
}

// An archive of links to folders costs what its names cost.
func TestLinksOfAnArchiveAreLookedUp(t *testing.T) {
	l := &archiveLinks{archive: &archive{name: "x.tar"}, files: map[string]bool{}}
	for i := range 50_000 {
		l.files[fmt.Sprintf("folder-%d/pods.yaml", i)] = true
		l.to = append(l.to, archiveLink{fmt.Sprintf("link-%d", i), fmt.Sprintf("folder-%d", i)})
	}
	if err := l.check(); err != nil { // one by one these would be compared two and a half billion times
		t.Error(err)
	}
	l.to = append(l.to, archiveLink{"pods.yaml", "folder"})
	if l.check() == nil {
		t.Error("a link to nothing is accepted")
	}
}
