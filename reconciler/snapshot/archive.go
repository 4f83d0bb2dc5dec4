package snapshot

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"
)

// walkStream detects by its first bytes what a stream is: a tar archive, YAML or JSON, each packed with gzip or not.
// name is for messages.
func walkStream(name string, r io.Reader) (walk, error) {
	in := bufio.NewReaderSize(r, 1<<16)
	head, _ := in.Peek(512) // less where there is less
	if bytes.HasPrefix(head, []byte("\x1f\x8b")) {
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("%s is not gzip: %w", name, err)
		}
		in = bufio.NewReaderSize(unpacked, 1<<16)
		if head, err = in.Peek(512); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("unpack %s: %w", name, err)
		}
	}
	if len(head) >= 262 && string(head[257:262]) == "ustar" { // POSIX.1 and GNU
		return (&archive{name, in, maxArchive}).walk, nil
	}
	return func(take func(entry) error) error {
		// The content decides, whatever the name is.
		return take(entry{name: "stream.yaml", path: name, required: true, Reader: in})
	}, nil
}

type archive struct {
	name string // for messages
	r    io.Reader
	most int64 // as maxArchive
}

func (a *archive) walk(take func(entry) error) error {
	stream := &tail{r: io.LimitReader(a.r, a.most+1)}
	in := tar.NewReader(stream)
	for {
		head, err := in.Next()
		if stream.read > a.most {
			return fmt.Errorf("%s %w: it has more than %d bytes: "+
				"unpack it, and judge the folder with the objects only", a.name, errTooLarge, a.most)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%s is damaged or incomplete: %w", a.name, err)
		}
		e := entry{name: path.Clean(strings.TrimLeft(head.Name, "/"))}
		e.path = a.name + ": " + e.name
		if !filepath.IsLocal(e.name) {
			return fmt.Errorf("%s has the path %q, which is outside of the archive: create the archive again", a.name, head.Name)
		}
		switch head.Typeflag {
		case tar.TypeDir, tar.TypeXGlobalHeader:
			continue
		case tar.TypeReg, tar.TypeGNUSparse:
			e.Reader = in
		case tar.TypeSymlink, tar.TypeLink:
			e.link = head.Linkname
		}
		if err := take(e); err != nil {
			return err
		}
	}
	// tar's Reader accepts an archive without the mark of its end. Missing objects would count as not existing.
	if !stream.endsInZeros() {
		return fmt.Errorf("%s is incomplete: it lacks the mark of its end", a.name)
	}
	if _, err := io.Copy(io.Discard, stream); err != nil { // for gzip to compare its checksum
		return fmt.Errorf("%s is damaged or incomplete: %w", a.name, err)
	}
	return nil
}

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

func (t *tail) endsInZeros() bool {
	return len(t.last) == block && len(bytes.Trim(t.last, "\x00")) == 0
}
