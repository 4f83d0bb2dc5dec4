package snapshot

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
)

// limits bound what is unpacked: an archive may come from anybody, and a small one may
// unpack to any size.
type limits struct {
	unpacked int64 // bytes in all, read or not
	names    int   // bytes of the names of entries, and 64 for each
}

// An archive is a tar archive, read once from its beginning to its end. Nothing of it is
// written to disk.
type archive struct {
	name   string // for messages
	r      io.Reader
	packed *unpacking // nil where it is not compressed
	limits limits
}

// openStream tells by its first bytes what a stream is: a tar archive, such an archive or a
// file compressed with gzip, or YAML or JSON. name is for messages.
func openStream(name string, r io.Reader) (source, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	var unpacked *unpacking
	head, _ := in.Peek(512) // less where there is less
	if bytes.HasPrefix(head, []byte("\x1f\x8b")) {
		var err error
		if unpacked, err = unpack(name, in); err != nil {
			return nil, fmt.Errorf("%s is not gzip: %w", name, err)
		}
		in = bufio.NewReaderSize(unpacked, 1<<16)
		if head, err = in.Peek(512); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("unpack %s: %w", name, err)
		}
	}
	for kind, magic := range map[string]string{"zstd": "\x28\xb5\x2f\xfd", "xz": "\xfd7zXZ\x00", "bzip2": "BZh", "zip": "PK\x03\x04"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return nil, fmt.Errorf("%s is compressed with %s: unpack it, or give a tar archive, .tgz or a folder", name, kind)
		}
	}
	if len(head) >= 262 && string(head[257:262]) == "ustar" { // POSIX.1 and GNU
		return &archive{name: name, r: in, packed: unpacked, limits: limits{unpacked: 32 << 30, names: 256 << 20}}, nil
	}
	return &document{name: name, r: in}, nil
}

// A document is a stream of YAML or JSON, of which nothing can be left out.
type document struct {
	name string
	r    io.Reader
}

func (d *document) each(take func(entry) error, _ func(string)) error {
	open := func() (io.ReadCloser, error) { return io.NopCloser(d.r), nil }
	// Told by its content, it is read as what kubectl writes, whatever its name is.
	return take(entry{name: "stream.yaml", path: d.name, required: true, open: open})
}

func (a *archive) each(take func(entry) error, skip func(string)) error {
	stream := &tail{r: io.LimitReader(a.r, a.limits.unpacked+1)}
	links := &archiveLinks{archive: a, files: map[string]bool{}}
	in := tar.NewReader(stream)
	for names := 0; ; {
		head, err := in.Next()
		if err == nil {
			names += 64 + len(head.Name) + len(head.Linkname)
		}
		if stream.read > a.limits.unpacked || names > a.limits.names {
			return fmt.Errorf("read snapshot: %s %w: it has more than %d bytes, or names of more than %d: "+
				"unpack it, and give the folder with the objects alone", a.name, errTooLarge, a.limits.unpacked, a.limits.names)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = a.entry(head, in, links, take, skip)
		} else {
			err = fmt.Errorf("read snapshot: %s is damaged, or was not copied to its end: %w", a.name, err)
		}
		if err != nil {
			return err
		}
	}
	// tar's Reader takes an end without its mark for an end, too. What is missing would count
	// as not there.
	if !stream.endsInZeros() {
		return fmt.Errorf("read snapshot: %s ends without the mark of its end: it was not copied to its end", a.name)
	}
	if _, err := io.Copy(io.Discard, stream); err != nil { // for gzip to compare its checksum
		return fmt.Errorf("read snapshot: %s is damaged, or was not copied to its end: %w", a.name, err)
	}
	return links.check()
}

// entry takes in what has a header of its own in the archive.
func (a *archive) entry(head *tar.Header, in io.Reader, links *archiveLinks, take func(entry) error, skip func(string)) error {
	name := path.Clean(strings.TrimLeft(head.Name, "/"))
	shown := a.name + ": " + name
	if name == ".." || strings.HasPrefix(name, "../") {
		return fmt.Errorf("read snapshot: %s holds %q, which is outside of it: make the archive again", a.name, head.Name)
	}
	if a.packed != nil {
		a.packed.skips = formOf(name) != whole
	}
	switch head.Typeflag {
	case tar.TypeDir, tar.TypeXGlobalHeader:
		return nil
	case tar.TypeReg, tar.TypeGNUSparse:
		if isSparse(head) && formOf(name) == whole {
			return fmt.Errorf("read snapshot: %s is a sparse file: make the archive again, without --sparse", shown)
		}
		links.files[name] = true
		return take(entry{name: name, path: shown, size: head.Size, open: func() (io.ReadCloser, error) { return io.NopCloser(in), nil }})
	case tar.TypeSymlink, tar.TypeLink:
		return links.add(head, name, func() { skip(shown) })
	}
	if hasEnding(name) {
		return fmt.Errorf("read snapshot: %s is not a regular file: put its content there, or remove it", shown)
	}
	skip(shown)
	return nil
}

// isSparse reports whether a file may be larger than what the archive has of it: a few
// bytes of it may stand for any number of zeros.
func isSparse(head *tar.Header) bool {
	for record := range head.PAXRecords {
		if strings.HasPrefix(record, "GNU.sparse.") {
			return true
		}
	}
	return head.Typeflag == tar.TypeGNUSparse
}

// archiveLinks are the links of an archive to files that are read under their own names.
type archiveLinks struct {
	*archive
	files map[string]bool
	to    []archiveLink
}

type archiveLink struct{ name, target string }

// add takes in a link. It is not followed: what it leads to stands in the archive itself.
func (l *archiveLinks) add(head *tar.Header, name string, skip func()) error {
	target := path.Clean(head.Linkname) // of a hard link it is a name in the archive
	if head.Typeflag == tar.TypeSymlink && !path.IsAbs(target) {
		target = path.Join(path.Dir(name), target)
	}
	switch {
	case !hasEnding(name) && !hasEnding(target) && !byLayout(name):
		skip()
		return nil
	case path.IsAbs(target) && head.Typeflag == tar.TypeSymlink || target == ".." || strings.HasPrefix(target, "../"):
		return fmt.Errorf("read snapshot: %s: %s leads out of the archive, to %s: put what it leads to into the archive", l.name, name, head.Linkname)
	}
	l.to = append(l.to, archiveLink{name, strings.TrimLeft(target, "/")})
	return nil
}

// check reports a link to a file that was not read, or is not there.
func (l *archiveLinks) check() error {
	if len(l.to) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(l.files))
	for _, link := range l.to {
		at, _ := slices.BinarySearch(names, link.target+"/")
		isFolder := !l.files[link.target] && at < len(names) && strings.HasPrefix(names[at], link.target+"/")
		if !isFolder && (!l.files[link.target] || !hasEnding(link.target)) {
			return fmt.Errorf("read snapshot: %s: %s leads to %s, which is not there or not read: unpack the archive and give the folder, or remove the link", l.archive.name, link.name, link.target)
		}
	}
	return nil
}

// tail remembers the last block that was read, and counts the bytes.
type tail struct {
	r    io.Reader
	read int64
	last []byte
}

const block = 512 // of tar, in bytes

func (t *tail) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.read += int64(n)
	t.last = append(t.last, p[max(0, n-block):n]...)
	t.last = t.last[max(0, len(t.last)-block):]
	return n, err
}

// endsInZeros reports whether the last block that was read is a mark of the end.
func (t *tail) endsInZeros() bool {
	return len(t.last) == block && len(bytes.Trim(t.last, "\x00")) == 0
}
