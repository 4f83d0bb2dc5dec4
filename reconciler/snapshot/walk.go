package snapshot

import (
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
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
	if text, err = io.ReadAll(io.LimitReader(r, maxFile+1)); err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s %w: it has more than %d bytes: export its objects in several files",
			e.path, errTooLarge, maxFile)
	}
	return text, err
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
	objects, isAny, err := objectsOf(e, text)
	needed := e.required || byLayout(e.name)
	switch {
	case err != nil && (needed || mayHold.Match(withoutZeros(text))):
		return fmt.Errorf("%w; the file may have objects that are judged: repair it, or remove it", err)
	case err == nil && isAny:
		return s.takeObjects(objects)
	case err == nil && needed:
		return fmt.Errorf("%s has no Kubernetes object, and by its name it should: export it again, or remove it", e.path)
	}
	s.skip(e.path)
	return nil
}

func (s *Snapshot) takeObjects(objects []*object) error {
	s.files++
	for _, o := range objects {
		if err := o.shrink(); err != nil {
			return err
		}
		if err := s.charge(o); err != nil {
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

// folder walks a folder on disk. It reads no file outside of the folder, even if links change meanwhile.
type folder struct{ *os.Root }

func (f folder) walk(take func(entry) error) error {
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

// mayHide reports whether a link may lead to objects that are judged, by its name and its target.
func mayHide(name, target string) bool {
	target = filepath.ToSlash(target)
	return hasEnding(name) || hasEnding(target) || byLayout(name) || byLayout(target) || strings.HasSuffix(target, "/")
}
