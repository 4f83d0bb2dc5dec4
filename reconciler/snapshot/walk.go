package snapshot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A walk goes over a folder, an archive or one stream. It calls take for every file, and skip for what can hold
// nothing. An error of take ends it.
type walk func(take func(entry) error, skip func(path string)) error

// entry is a file of a snapshot.
type entry struct {
	name string // in the snapshot, with slashes
	path string // for messages
	real string // name, or of a link what it leads to
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
	form := formOf(e.name)
	if form == never {
		s.skip(e.path)
		return nil
	}
	r, err := e.open()
	if err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	defer r.Close()
	if form == peeked {
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
	s.names[e.name], s.names[e.real] = true, true
	for _, o := range objects {
		if err := o.shrink(); err != nil {
			return err
		}
		if err := s.charge(o); err != nil {
			return err
		}
		s.add(o)
		o.text = nil
	}
	return nil
}

// peek reads the head of a file that is not read because of its name.
func (s *Snapshot) peek(e entry, r io.Reader) error {
	head, err := io.ReadAll(io.LimitReader(r, peekedBytes))
	if err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	s.takeTimestamp(e.name, head)
	if beginsLikeObjects(head) {
		s.misnamed[e.name] = e.path
		return nil
	}
	s.skip(e.path)
	return nil
}

// checkMisnamed refuses files that begin like objects and were not read, not even through a
// link that has another name.
func (s *Snapshot) checkMisnamed() error {
	for _, name := range slices.Sorted(maps.Keys(s.misnamed)) {
		if !s.names[name] {
			return fmt.Errorf("%s begins like Kubernetes objects, and is not read because of its name: give it the ending .yaml or .json, or move it out of the snapshot", s.misnamed[name])
		}
	}
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
			return f.link(name, take, skip)
		}
		info, err := e.Info()
		if err != nil {
			return fmt.Errorf("read snapshot: %w", err)
		}
		return f.file(name, name, info, take, skip)
	})
}

func (f folder) path(name string) string { return filepath.Join(f.Name(), filepath.FromSlash(name)) }

func (f folder) file(name, leadsTo string, info fs.FileInfo, take func(entry) error, skip func(string)) error {
	if !info.Mode().IsRegular() {
		return notRegular(name, f.path(name), skip)
	}
	open := func() (io.ReadCloser, error) { return f.Open(name) }
	return take(entry{name: name, path: f.path(name), real: leadsTo, size: info.Size(), open: open})
}

// link takes in what a link leads to. A folder, and a file that has an ending, are read where they are.
func (f folder) link(name string, take func(entry) error, skip func(string)) error {
	target, err := f.Readlink(name)
	if err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	target = filepath.ToSlash(target)
	info, err := f.Stat(name)
	switch there, outErr := os.Stat(f.path(name)); {
	case err == nil && (info.IsDir() || hasEnding(target)):
		return nil
	case err == nil:
		return f.file(name, path.Join(path.Dir(name), target), info, take, skip)
	case errors.Is(err, fs.ErrNotExist) && !byLayout(name) && !byLayout(target):
		skip(f.path(name) + ", a link to nothing")
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read snapshot: %w", err)
	case hasEnding(name) || hasEnding(target) || byLayout(name) || outErr == nil && there.IsDir():
		return fmt.Errorf("read snapshot: %s leads out of the folder, and is not followed (%w): put what it leads to into the folder", f.path(name), err)
	}
	skip(f.path(name))
	return nil
}
