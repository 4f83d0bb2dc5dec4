package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
)

// A source is where the files of a snapshot are: a folder, an archive, or one stream.
type source interface {
	// each calls take for every file; an error of take ends it. What is no file, and
	// can hold nothing, is given to skip.
	each(take func(entry) error, skip func(name string)) error
}

// entry is a file of a source.
type entry struct {
	name string // in the source, with slashes
	path string // for messages
	real string // name, or where it is a link that of the file
	size int64  // in bytes; 0 if that is not known
	// required: it is all there is, so that it cannot be left out.
	required bool
	open     func() (io.ReadCloser, error)
}

// peekedBytes is how much is read of a file that is probably none of ours.
const peekedBytes = 16 << 10

// take takes in a file, or skips it where it holds nothing that is read.
func (f *Snapshot) take(e entry) error {
	switch formOf(e.name) {
	case never:
		f.skip(e.path)
	case peeked:
		head, err := e.head(peekedBytes)
		if err != nil {
			return fmt.Errorf("read snapshot: %w", err)
		}
		f.takeTimestamp(e.name, head)
		if beginsLikeObjects(head) {
			f.misnamed[e.name] = e.path
			return nil
		}
		f.skip(e.path)
	case packed:
		return f.takePacked(e)
	case whole:
		text, err := e.text()
		if err != nil {
			return fmt.Errorf("read snapshot: %w", err)
		}
		return f.takeText(e, text)
	}
	return nil
}

// takeText takes in a file that may be YAML or JSON.
func (f *Snapshot) takeText(e entry, text []byte) error {
	x := &file{name: e.name, path: e.path, isJSON: isJSON(e.name, text)}
	objects, lists, err := x.objects(text)
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
		f.skip(e.path)
		return nil
	case len(objects) == 0 && lists == 0 && needed:
		return fmt.Errorf("%s holds no Kubernetes object, and by its name it should: export it again, or remove it", e.path)
	case len(objects) == 0 && lists == 0:
		f.skip(e.path)
		return nil
	}
	f.files++
	f.names[e.name], f.names[e.real] = true, true
	for _, o := range objects {
		if err := f.charge(o); err != nil {
			return err
		}
		f.add(o)
		o.text = nil
	}
	return nil
}

// takePacked refuses compressed objects: what is in the archive of a must-gather is not
// compressed a second time, and what is written must be a file of its own.
func (f *Snapshot) takePacked(e entry) error {
	refused := fmt.Errorf("%s is compressed and may hold what is judged: unpack it with gunzip, or remove it", e.path)
	if byLayout(e.name) {
		return refused
	}
	r, err := e.open()
	if err != nil {
		return fmt.Errorf("read snapshot: %w", err)
	}
	defer r.Close()
	unpacked, err := unpack(e.path, r)
	if err == nil {
		var text []byte
		text, err = readAtMost(unpacked, e.path, 0)
		if _, may := mentions(text); err == nil && may {
			return refused
		}
	}
	if err != nil {
		return fmt.Errorf("%w (%v)", refused, err) //nolint:errorlint // its cause decides nothing
	}
	f.skip(e.path)
	return nil
}

// checkMisnamed refuses files that begin like objects and were not read, not even through a
// link that has another name.
func (f *Snapshot) checkMisnamed() error {
	for _, name := range slices.Sorted(maps.Keys(f.misnamed)) {
		if !f.names[name] {
			return fmt.Errorf("%s begins like Kubernetes objects, and is not read because of its name: give it the ending .yaml or .json, or move it out of the snapshot", f.misnamed[name])
		}
	}
	return nil
}

// skip notes a file that holds no object.
func (f *Snapshot) skip(path string) {
	if f.skipped++; f.skippedFirst == "" || path < f.skippedFirst {
		f.skippedFirst = path
	}
}

func (e *entry) text() ([]byte, error) {
	r, err := e.open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	size := e.size
	if f, onDisk := r.(fs.File); onDisk {
		if info, err := f.Stat(); err == nil {
			size = info.Size()
		}
	}
	return readAtMost(r, e.path, size)
}

func (e *entry) head(most int64) ([]byte, error) {
	r, err := e.open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, most))
}

// readAtMost reads all, up to maxFile; size is how much that probably is.
func readAtMost(r io.Reader, path string, size int64) ([]byte, error) {
	var text bytes.Buffer
	text.Grow(int(min(max(size, 0), 64<<20)) + bytes.MinRead)
	n, err := text.ReadFrom(io.LimitReader(r, maxFile+1))
	if err == nil && n > maxFile {
		err = fmt.Errorf("%s %w: it has more than %d bytes: export its objects in several files", path, errTooLarge, maxFile)
	}
	return text.Bytes(), err
}
