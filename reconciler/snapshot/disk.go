package snapshot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// A disk is the folder of a snapshot on disk. Nothing outside of it is read, whatever links in it, and links that are put into it meanwhile, lead to.
type disk struct{ root *os.Root }

// path is where a file of the folder is, for messages.
func (d *disk) path(name string) string { return filepath.Join(d.root.Name(), name) }

// each is a source's. A link to a folder in it is left out, and one to a file that is read
// under its own name, since those are read anyway.
func (d *disk) each(take func(entry) error, skip func(string)) error {
	return fs.WalkDir(d.root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("read snapshot: %w", d.explained(name, err))
		case e.IsDir():
			return nil
		case e.Type()&fs.ModeSymlink != 0:
			return d.link(name, take, skip)
		case !e.Type().IsRegular():
			return d.irregular(name, skip)
		}
		return take(d.entry(name))
	})
}

// link takes in what a link leads to, where that is not read anyway.
func (d *disk) link(name string, take func(entry) error, skip func(string)) error {
	target, _ := d.root.Readlink(name)
	info, err := d.root.Stat(name)
	if err != nil {
		there, outErr := os.Stat(d.path(name))
		if _, within := d.resolved(name); errors.Is(err, fs.ErrNotExist) && within == nil && !byLayout(name) && !byLayout(filepath.ToSlash(target)) {
			skip(d.path(name) + ", a link to nothing")
			return nil
		}
		if hasEnding(name) || hasEnding(target) || byLayout(name) || outErr == nil && there.IsDir() {
			return fmt.Errorf("read snapshot: %w", d.explained(name, err))
		}
		skip(d.path(name))
		return nil
	}
	own, err := d.resolved(name)
	switch {
	case info.IsDir() || err == nil && hasEnding(own) && own != name:
		return nil
	case !info.Mode().IsRegular():
		return d.irregular(name, skip)
	}
	e := d.entry(name)
	if err == nil {
		e.real = filepath.ToSlash(own)
	}
	return take(e)
}

// irregular refuses pipes, devices and sockets where a file must be: they may never end.
func (d *disk) irregular(name string, skip func(string)) error {
	if hasEnding(name) {
		return fmt.Errorf("read snapshot: %s is not a regular file: put its content there, or remove it", d.path(name))
	}
	skip(d.path(name))
	return nil
}

func (d *disk) entry(name string) entry {
	e := entry{name: filepath.ToSlash(name), path: d.path(name), real: filepath.ToSlash(name)}
	e.open = func() (io.ReadCloser, error) {
		r, err := d.root.Open(name)
		if err != nil {
			return nil, d.explained(name, err)
		}
		return r, nil
	}
	return e
}

// resolved is the name of the file that a link leads to, or the name itself.
func (d *disk) resolved(name string) (string, error) {
	for range 40 { // as many links as Linux follows
		target, err := d.root.Readlink(name)
		if err != nil { // it is no link, or not there yet
			return name, nil
		}
		if filepath.IsAbs(target) {
			return "", d.leadsOut(name, errors.New("its target is an absolute path"))
		}
		if name = filepath.Join(filepath.Dir(name), target); !filepath.IsLocal(name) {
			return "", d.leadsOut(name, errors.New("its target is above the folder"))
		}
	}
	return "", fmt.Errorf("%s: too many links", d.path(name))
}

// explained is an error about a file, and what to do where it is that a link leads out.
func (d *disk) explained(name string, err error) error {
	// The package os has no name for that error: this one is sure to be it.
	_, known := d.root.Lstat("..")
	if out := (*fs.PathError)(nil); errors.As(known, &out) && errors.Is(err, out.Err) {
		return d.leadsOut(name, err)
	}
	return err
}

func (d *disk) leadsOut(name string, err error) error {
	return fmt.Errorf("%s leads out of the folder, and is not followed (%w): put what it leads to into the folder", d.path(name), err)
}
