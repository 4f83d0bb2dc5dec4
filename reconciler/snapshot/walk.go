package snapshot

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/internal/fileform"
)

// walk goes over a folder, an archive or one stream, and calls take for every file and link. An error of take ends it.
type walk func(take func(entry) error) error

type entry struct {
	name      string // in the snapshot, with slashes
	path      string // for messages
	io.Reader        // nil unless it is a regular file
	link      string // the target of a link; it ends with a slash for a folder outside of the snapshot
	required  bool   // the only file, which cannot be skipped
}

func (e entry) text() (text []byte, err error) {
	r := e.Reader
	if strings.HasSuffix(e.name, ".gz") {
		if r, err = gzip.NewReader(r); err != nil {
			return nil, fmt.Errorf("%s is not gzip: %w", e.path, err)
		}
	}
	if text, err = io.ReadAll(io.LimitReader(r, maxFile+1)); err != nil {
		return nil, fmt.Errorf("%s is damaged or incomplete: %w", e.path, err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s %w: it has more than %d bytes: export its objects in several files of one folder, for "+
			"example each namespace alone (kubectl get pods -n default -o json > pods-default.json)",
			e.path, errTooLarge, maxFile)
	}
	return text, nil
}

const peekedBytes = 16 << 10

// take reads a file, or skips a file without objects that are judged.
func (s *Snapshot) take(e entry) error {
	switch {
	case e.link != "" && mayHide(e.name, e.link):
		return fmt.Errorf("%s is a link to %s, which is not followed: replace the link by its target "+
			"(tar --dereference --hard-dereference does), or remove it", e.path, e.link)
	case e.link == "" && e.Reader == nil && hasEnding(e.name): // a pipe or device may never end
		return fmt.Errorf("%s is not a regular file: replace it by a regular file, or remove it", e.path)
	case e.Reader == nil, path.Ext(e.name) == ".log":
		s.skip(e.path)
		return nil
	}
	if !hasEnding(e.name) {
		return s.peek(e)
	}
	text, err := e.text()
	if err != nil {
		return err
	}
	if err := fileform.Check(e.path, text, true); err != nil {
		return err // it may have objects that are judged
	}
	objects, isAny, err := objectsOf(e, text)
	needed := e.required || byLayout(e.name)
	switch {
	case err != nil && isAny:
		return err
	case err != nil && (needed || mayHold.Match(withoutZeros(text))):
		return fmt.Errorf("%w; the file may have objects that are judged: repair it, or remove it", err)
	case err == nil && isAny:
		return s.takeObjects(e, objects)
	case err == nil && needed && fileform.CheckEmpty(e.path, text) != nil:
		return fileform.CheckEmpty(e.path, text)
	case err == nil && needed:
		return fmt.Errorf("%s has no Kubernetes object, and by its name it should: export it again, or remove it", e.path)
	}
	s.skip(e.path)
	return nil
}

func (s *Snapshot) takeObjects(e entry, objects []*object) error {
	s.files++
	for _, o := range objects {
		if o.isDump {
			s.dumped = cmp.Or(s.dumped, e.path)
		}
		if o.isList {
			s.seen[cmp.Or(o.judgedKind(), kindByLayout(e.name))] = true
			continue
		}
		s.noteTimes(o)
		o.shrink()
		if err := s.charge(o); err != nil { // before anything decodes it
			return err
		}
		if err := o.checkValues(); err != nil {
			return err
		}
		if err := s.add(o); err != nil {
			return err
		}
		o.text = nil
	}
	return nil
}

// peek reads the head of a file whose name is not that of YAML or JSON. A head of Kubernetes objects is an error.
func (s *Snapshot) peek(e entry) error {
	head, err := io.ReadAll(io.LimitReader(e, peekedBytes))
	if err != nil {
		return fmt.Errorf("%s: %w", e.path, err)
	}
	s.takeTimestamp(e.name, head)
	if s.described == "" && describedPool.Match(head) {
		s.described = e.path
	}
	if text := withoutZeros(head); objectHead.Match(text) && mayHold.Match(text) {
		return fmt.Errorf("%s begins like Kubernetes objects, and is not read because of its name: "+
			"give it the ending .yaml or .json, or move it out of the snapshot", e.path)
	}
	s.skip(e.path)
	return nil
}

func (s *Snapshot) skip(path string) {
	if s.skipped++; s.skippedFirst == "" || path < s.skippedFirst {
		s.skippedFirst = path
	}
}

// walkFolder walks over a folder on disk. It reads no file outside of the folder, even if links change meanwhile.
func walkFolder(f *os.Root) walk {
	return func(take func(entry) error) error {
		return fs.WalkDir(f.FS(), ".", func(name string, found fs.DirEntry, err error) error {
			if err != nil || found.IsDir() {
				return err
			}
			e := entry{name: name, path: filepath.Join(f.Name(), filepath.FromSlash(name))}
			switch {
			case found.Type()&fs.ModeSymlink != 0:
				if e.link, err = f.Readlink(name); err != nil {
					return err
				}
				if info, err := f.Stat(name); err == nil && (info.IsDir() || hasEnding(e.link)) {
					return nil // the target is read in its own place
				}
				if info, err := os.Stat(e.path); err == nil && info.IsDir() {
					e.link += "/"
				}
			case found.Type().IsRegular():
				file, err := f.Open(name)
				if err != nil {
					return err
				}
				defer file.Close()
				e.Reader = file
			}
			return take(e)
		})
	}
}

// mayHide reports whether a link may lead to objects that are judged, by its name and its target.
func mayHide(name, target string) bool {
	target = filepath.ToSlash(target)
	return hasEnding(name) || hasEnding(target) || byLayout(name) || byLayout(target) || strings.HasSuffix(target, "/")
}

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
	if err := fileform.Check(name, head, true); err != nil {
		return nil, err
	}
	if len(head) < fileform.Head { // all of it
		if err := fileform.CheckEmpty(name, head); err != nil {
			return nil, err
		}
	}
	if len(head) >= 262 && string(head[257:262]) == "ustar" { // POSIX.1 and GNU
		return walkArchive(name, in, maxArchive), nil
	}
	return func(take func(entry) error) error {
		// The content decides, whatever the name is.
		return take(entry{name: "stream.yaml", path: name, required: true, Reader: in})
	}, nil
}

// walkArchive walks over a tar archive of at most so many bytes. name is for messages.
func walkArchive(name string, r io.Reader, most int64) walk {
	tooLarge := func() error {
		return fmt.Errorf("%s %w: it has more than %d bytes: "+
			"unpack it, and judge the folder with the objects only", name, errTooLarge, most)
	}
	return func(take func(entry) error) error {
		stream := &tail{r: io.LimitReader(r, most+1)}
		in := tar.NewReader(stream)
		for {
			head, err := in.Next()
			if stream.read > most {
				return tooLarge()
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return fmt.Errorf("%s is damaged or incomplete: %w", name, err)
			}
			e := entry{name: path.Clean(strings.TrimLeft(head.Name, "/"))}
			e.path = name + ": " + e.name
			if !filepath.IsLocal(e.name) {
				return fmt.Errorf("%s has the path %q, which is outside of the archive: create the archive again", name, head.Name)
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
		if stream.hasEnded {
			return fmt.Errorf("%s is incomplete: it lacks the mark of its end", name)
		}
		_, err := io.Copy(onlyZeros{}, stream) // to the end, for gzip to compare its checksum
		switch {
		case errors.Is(err, errNotZero):
			return fmt.Errorf("%s has more behind the mark of its end, as of a second archive: "+
				"judge each archive alone, or unpack all of them into one folder (tar --ignore-zeros does)", name)
		case err != nil:
			return fmt.Errorf("%s is damaged or incomplete: %w", name, err)
		case stream.read > most:
			return tooLarge()
		}
		return nil
	}
}

// tail reads an archive to the mark of its end, two blocks of zeros, and behind it.
type tail struct {
	r        io.Reader
	read     int64
	hasEnded bool // nothing is left
}

func (t *tail) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	if t.read += int64(n); n > 0 && errors.Is(err, io.EOF) {
		return n, nil // the next call returns the end
	}
	t.hasEnded = t.hasEnded || errors.Is(err, io.EOF)
	return n, err
}

var errNotZero = errors.New("not zero")

// onlyZeros accepts the padding of an archive, and nothing else.
type onlyZeros struct{}

func (onlyZeros) Write(p []byte) (int, error) {
	if len(bytes.Trim(p, "\x00")) > 0 {
		return 0, errNotZero
	}
	return len(p), nil
}
