package cnicache

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// fileKind is which cache the files of a folder belong to.
type fileKind int

const (
	runtimeResults  fileKind = iota // libcni's, of the container runtime
	multusDelegates                 // <containerID>, the delegates
	multusResults                   // libcni's, of Multus' delegates
)

// The container ids in the names of the files, as containerd and CRI-O make them. Results are named
// <network>-<containerID>-<ifname>. The last id in the name counts: a network may be named like an id.
var (
	delegatesName = regexp.MustCompile(`^([0-9a-fA-F]{64})$`)
	resultName    = regexp.MustCompile(`^.+-([0-9a-fA-F]{64})-.+$`)
)

// id is the container id in the name of a file, "" for none.
func (k fileKind) id(name string) string {
	pattern := resultName
	if k == multusDelegates {
		pattern = delegatesName
	}
	if found := pattern.FindStringSubmatch(name); found != nil {
		return found[1]
	}
	return ""
}

const (
	// maxFileSize is beyond any real file: a result is a few KB.
	maxFileSize = 1 << 20
	// mtimeReliableAfter is how old a file must be for its next change to show in its
	// mtime: the kernel's file times are coarse, and a file that is being written may
	// change without another mtime.
	mtimeReliableAfter = 2 * time.Second
)

// folder is one of the folders and what was parsed of its files.
type folder struct {
	path    string
	kind    fileKind
	existed bool                   // it may be missing until then
	parent  string                 // must exist even then; "" for none
	files   map[string]*parsedFile // of the last read, those that are read again only when they change
}

// read calls found for every file with an id in its name. Its error means that
// the folder as a whole cannot be relied upon.
func (f *folder) read(now time.Time, found func(id, name string, r *parsedFile)) error {
	// Files are opened below the very folder that was listed: were the path
	// another by then (an unmount), all of them would seem to have gone.
	root, err := os.OpenRoot(f.path)
	if err != nil {
		return err
	}
	defer root.Close()
	listed, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return fmt.Errorf("list %s: %w", f.path, err)
	}
	known := f.files
	f.files = make(map[string]*parsedFile, len(listed))
	for _, file := range listed {
		name := file.Name()
		id := f.kind.id(name)
		if id == "" {
			continue
		}
		r, err := f.readFile(root, name, id, known[name], now)
		if err != nil {
			return err
		}
		if r != nil {
			found(id, name, r)
		}
	}
	return nil
}

// readFile returns what was parsed of a file, now or before if it did not change; nil
// if it has gone since it was listed.
func (f *folder) readFile(root *os.Root, name, id string, known *parsedFile, now time.Time) (*parsedFile, error) {
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		// Without its age it can neither count nor be left out.
		return nil, fmt.Errorf("read %s: %w", filepath.Join(f.path, name), err)
	}
	if known != nil && sameFile(known.info, info) {
		f.files[name] = known
		return known, nil
	}
	data, err := readContent(root, name, info)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	r := &parsedFile{problem: err}
	if err == nil {
		r = f.kind.parse(id, data)
	}
	r.info = info
	if r.problem == nil && now.Sub(info.ModTime()).Abs() > mtimeReliableAfter {
		f.files[name] = r
	}
	return r, nil
}

// readContent reads a regular file and never blocks. The file must be the one that info describes, and not change
// while it is read.
func readContent(root *os.Root, name string, info fs.FileInfo) ([]byte, error) {
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("is no regular file: %v", info.Mode())
	}
	if info.Size() > maxFileSize {
		return nil, fmt.Errorf("is larger than %d bytes: %d", maxFileSize, info.Size())
	}
	// A FIFO may have taken its place meanwhile.
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFileSize+1))
	if err != nil {
		return nil, err
	}
	if now, err := file.Stat(); err != nil || !sameFile(now, info) {
		return nil, errors.New("changed while it was read")
	}
	return data, nil
}

// sameFile reports whether a and b describe one file that did not change in between.
func sameFile(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}
