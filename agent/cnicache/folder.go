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

// fileKind is the kind of cache to which the files of a folder belong.
type fileKind int

const (
	runtimeResults  fileKind = iota // libcni's, for the container runtime
	multusDelegates                 // Multus' list of networks, in <containerID>
	multusResults                   // libcni's, for the delegates of Multus
)

// Patterns of file names with a container id, as containerd and CRI-O create ids. Results are named
// <network>-<containerID>-<ifname>. The last id counts, because a network name may contain one.
var (
	delegatesName = regexp.MustCompile(`^([0-9a-fA-F]{64})$`)
	resultName    = regexp.MustCompile(`^.+-([0-9a-fA-F]{64})-.+$`)
)

// id returns the container id in the name of a file, "" if there is none.
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
	// maxFileSize is what an object can make of a file. The API server accepts objects of up to 1.5 MiB, of which a pod's
	// annotations are at most 256 KiB. Multus copies a pod's cni-args and a definition's config into its file and the
	// results: JSON makes up to 6 bytes of one, and base64 4 of 3. A real file has a few KB. Only a pod that selects
	// large definitions several times has a larger one, and its networks are then unknown.
	maxFileSize = 16 << 20
	// mtimeReliableAfter is the age from which any change of a file changes its mtime. The kernel's file times are
	// coarse, so a younger file may change again with the same mtime.
	mtimeReliableAfter = 2 * time.Second
)

// folder is one of the folders, with the parsed content of its files.
type folder struct {
	path       string
	kind       fileKind
	hasExisted bool                   // the folder may be missing until this is true
	parent     string                 // must exist even before that; "" for none
	files      map[string]*parsedFile // of the last read; a file is read again when it changes
}

// read calls found for every file with an id in its name. After an error nothing may be concluded from the folder.
func (f *folder) read(now time.Time, found func(id, name string, r *parsedFile)) error {
	// Files are opened below the folder that was listed. An unmount would make all files of its path seem gone.
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

// readFile returns the parsed file, from before if the file did not change, nil if the file is gone.
func (f *folder) readFile(root *os.Root, name, id string, known *parsedFile, now time.Time) (*parsedFile, error) {
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		// Without its age the file can neither count nor be ignored.
		return nil, fmt.Errorf("read %s: %w", filepath.Join(f.path, name), err)
	}
	if known != nil && isSameFile(known.info, info) {
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
	if err == nil && now.Sub(info.ModTime()).Abs() > mtimeReliableAfter {
		f.files[name] = r
	}
	return r, nil
}

// readContent reads a regular file without blocking. It fails if the file is not the one of info or changes meanwhile.
func readContent(root *os.Root, name string, info fs.FileInfo) ([]byte, error) {
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("not a regular file: %v", info.Mode())
	}
	if info.Size() > maxFileSize {
		return nil, fmt.Errorf("larger than %d bytes: %d", maxFileSize, info.Size())
	}
	// A FIFO may have replaced the file.
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(file, data); err != nil {
		return nil, err
	}
	if now, err := file.Stat(); err != nil || !isSameFile(now, info) {
		return nil, errors.New("changed during the read")
	}
	return data, nil
}

// isSameFile reports whether a and b describe the same unchanged file.
func isSameFile(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}
