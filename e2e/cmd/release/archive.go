package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// file is an entry of an archive.
type file struct {
	name string
	mode fs.FileMode
	data []byte
}

func byName(a, b file) int { return cmp.Compare(a.name, b.name) }

// put writes an artefact with the time of the commit, which `helm push` copies from the chart's file into the registry.
func (r *release) put(name string, data []byte) error {
	path := filepath.Join(r.folder, name)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return err
	}
	return os.Chtimes(path, r.created, r.created)
}

// files returns the files of a folder and below it, as an archive has them. No one can execute them.
func files(folder, prefix string) (all []file, err error) {
	err = fs.WalkDir(os.DirFS(folder), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(folder, path))
		all = append(all, file{prefix + path, 0o644, data})
		return err
	})
	return all, err
}

// tar packs files of root's, sorted, with the time of the commit.
func (r *release) tar(all []file) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range slices.SortedFunc(slices.Values(all), byName) {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: int64(f.mode), Size: int64(len(f.data)),
			ModTime: r.created, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close() // it writes the end of the archive
	return out.Bytes(), err
}

// tgz packs files as tar does, and compresses them.
func (r *release) tgz(all []file) ([]byte, error) {
	plain, err := r.tar(all)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

func (r *release) zip(all []file) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range slices.SortedFunc(slices.Values(all), byName) {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: r.created}
		header.SetMode(f.mode)
		entry, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := entry.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// checksums writes the sums of all artefacts, as `sha256sum --check` reads them.
func (r *release) checksums() error {
	entries, err := os.ReadDir(r.folder)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, e := range entries {
		sum, err := sumOf(filepath.Join(r.folder, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", sum, e.Name())
	}
	return r.put("checksums.txt", []byte(text.String()))
}

func sumOf(path string) (string, error) {
	data, err := os.ReadFile(path)
	return fmt.Sprintf("%x", sha256.Sum256(data)), err
}
