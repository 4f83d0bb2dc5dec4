package snapshot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// A walk goes over a folder, an archive or one stream. It calls take for every file, and skip for what can hold
// nothing. An error of take ends it.
type walk func(take func(entry) error, skip func(path string)) error

// entry is a file of a snapshot.
type entry struct {
	name string // in the snapshot, with slashes
	path string // for messages
	size int64  // in bytes; 0 if that is not known
	// required: it is all there is, so that it cannot be left out.
	required bool
	open     func() (io.ReadCloser, error)
}

// text reads the whole file, and unpacks one that is compressed.
func (e entry) text(r io.Reader) ([]byte, error) {
	if !strings.HasSuffix(e.name, ".gz") {
		return readAtMost(r, e.path, e.size)
	}
	unpacked, err := unpack(e.path, r)
	if err != nil {
		return nil, fmt.Errorf("%s is not gzip: %w", e.path, err)
	}
	return readAtMost(unpacked, e.path, 0)
}

// peekedBytes is how much is read of a file that is probably none of ours.
const peekedBytes = 16 << 10

// take takes in a file, or skips it where it holds nothing that is read.
func (s *Snapshot) take(e entry) error {
	if path.Ext(e.name) == ".log" {
		s.skip(e.path)
		return nil
	}
	r, err := e.open()
	if err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	defer r.Close()
	if !hasEnding(e.name) {
		return s.peek(e, r)
	}
	text, err := e.text(r)
	if err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	objects, lists, err := objectsOf(e, text)
	needed := e.required || byLayout(e.name)
	switch {
	case needed && errors.Is(err, errTooLarge):
		return fmt.Errorf("read snapshot: %w", err)
	case err != nil && needed:
		return fmt.Errorf("%w; by its name it holds what is judged: repair it, or remove it", err)
	case err != nil:
		if kind, may := mentions(text); may {
			what := "has fields of pods or pools"
			if kind != "" {
				what = fmt.Sprintf("mentions 'kind: %s'", kind)
			}
			return fmt.Errorf("%w; it %s, and so it is not left out: repair it, or remove it", err, what)
		}
	case len(objects) == 0 && lists == 0 && needed:
		return fmt.Errorf("%s holds no Kubernetes object, and by its name it should: export it again, or remove it", e.path)
	case len(objects) > 0 || lists > 0:
		return s.takeObjects(e, objects)
	}
	s.skip(e.path)
	return nil
}

func (s *Snapshot) takeObjects(e entry, objects []*object) error {
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

// peek reads the head of a file that is not read because of its name, and refuses one that begins like objects.
func (s *Snapshot) peek(e entry, r io.Reader) error {
	head, err := io.ReadAll(io.LimitReader(r, peekedBytes))
	if err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	s.takeTimestamp(e.name, head)
	if beginsLikeObjects(head) {
		return fmt.Errorf("read snapshot: %s begins like Kubernetes objects, and is not read because of its name: give it the ending .yaml or .json, or move it out of the snapshot", e.path)
	}
	s.skip(e.path)
	return nil
}

// skip notes a file that holds no object.
func (s *Snapshot) skip(path string) {
	if s.skipped++; s.skippedFirst == "" || path < s.skippedFirst {
		s.skippedFirst = path
	}
}

// notRegular refuses pipes, devices and sockets where a file must be: they may never end.
func notRegular(name, path string, skip func(string)) error {
	if hasEnding(name) {
		return fmt.Errorf("read snapshot: %s is not a regular file: put its content there, or remove it", path)
	}
	skip(path)
	return nil
}

// folder walks a folder on disk. Nothing outside of it is read, whatever links in it, and links that are put into it
// meanwhile, lead to.
type folder struct{ *os.Root }

func (f folder) walk(take func(entry) error, skip func(string)) error {
	return fs.WalkDir(f.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("read snapshot: %w", err)
		case e.IsDir():
			return nil
		case e.Type()&fs.ModeSymlink != 0:
			return f.link(name, skip)
		case !e.Type().IsRegular():
			return notRegular(name, f.path(name), skip)
		}
		info, err := e.Info()
		if err != nil {
			return fmt.Errorf("read snapshot: %w", err)
		}
		open := func() (io.ReadCloser, error) { return f.Open(name) }
		return take(entry{name: name, path: f.path(name), size: info.Size(), open: open})
	})
}

func (f folder) path(name string) string { return filepath.Join(f.Name(), filepath.FromSlash(name)) }

// link skips a link, since links are not followed. One that leads to a folder or file of the snapshot that is read is
// no loss; one that may lead to other objects is refused.
func (f folder) link(name string, skip func(string)) error {
	target, err := f.Readlink(name)
	if err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	target = filepath.ToSlash(target)
	if info, err := f.Stat(name); err == nil && (info.IsDir() || hasEnding(target)) {
		return nil
	}
	if there, err := os.Stat(f.path(name)); mayHide(name, target) || err == nil && there.IsDir() {
		return fmt.Errorf("read snapshot: %s is a link to %s, which is not followed: put what it leads to into the folder, or remove the link", f.path(name), target)
	}
	skip(f.path(name))
	return nil
}

// mayHide reports whether a link may lead to objects that are read, by its name and its target.
func mayHide(name, target string) bool {
	return hasEnding(name) || hasEnding(target) || byLayout(name) || byLayout(target)
}
