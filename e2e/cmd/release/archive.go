package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
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

// sbom writes an SPDX document of programs, by what the Go linker recorded in them.
func (r *release) sbom(name string, programs ...string) error {
	doc := &v2_3.Document{SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName: name, DocumentNamespace: fmt.Sprintf("%s/spdx/%s/%s", home, r.revision, name),
		CreationInfo: &v2_3.CreationInfo{Created: r.created.Format(time.RFC3339),
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "ip-reconcile-release-" + r.version}}},
	}
	relate := func(a common.ElementID, how string, b common.ElementID) {
		doc.Relationships = append(doc.Relationships, &v2_3.Relationship{Relationship: how,
			RefA: common.DocElementID{ElementRefID: a}, RefB: common.DocElementID{ElementRefID: b}})
	}
	modules := map[common.ElementID]bool{}
	for _, path := range programs {
		build, err := buildinfo.ReadFile(path)
		if err != nil {
			return err
		}
		sum, err := sumOf(path)
		if err != nil {
			return err
		}
		file := filepath.Base(path)
		program := packageOf(&debug.Module{Path: build.Path, Version: r.version}, "Apache-2.0")
		program.PackageSPDXIdentifier = id("Program", filepath.Base(filepath.Dir(path)), file)
		program.PackageFileName, program.PrimaryPackagePurpose = file, "APPLICATION"
		program.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: sum}}
		doc.Packages = append(doc.Packages, program)
		relate(doc.SPDXIdentifier, common.TypeRelationshipDescribe, program.PackageSPDXIdentifier)
		library := &debug.Module{Path: "stdlib", Version: strings.TrimPrefix(build.GoVersion, "go")}
		for _, m := range append([]*debug.Module{library}, build.Deps...) {
			if m.Replace != nil {
				m = m.Replace
			}
			module := packageOf(m, "NOASSERTION")
			if !modules[module.PackageSPDXIdentifier] {
				doc.Packages = append(doc.Packages, module)
			}
			modules[module.PackageSPDXIdentifier] = true
			relate(program.PackageSPDXIdentifier, common.TypeRelationshipDependsOn, module.PackageSPDXIdentifier)
		}
	}
	var text bytes.Buffer
	if err := json.Write(doc, &text, json.Indent("  ")); err != nil {
		return err
	}
	return r.put(name+".spdx.json", text.Bytes())
}

func packageOf(m *debug.Module, license string) *v2_3.Package {
	url := "pkg:golang/" + m.Path + "@" + strings.ReplaceAll(m.Version, "+", "%2B") // https://github.com/package-url
	return &v2_3.Package{PackageName: m.Path, PackageVersion: m.Version,
		PackageSPDXIdentifier: id("Module", m.Path, m.Version), PackageDownloadLocation: "NOASSERTION",
		PackageLicenseConcluded: license, PackageLicenseDeclared: license, PackageCopyrightText: "NOASSERTION",
		PackageExternalReferences: []*v2_3.PackageExternalReference{{Category: common.CategoryPackageManager,
			RefType: common.TypePackageManagerPURL, Locator: url}}}
}

var unusual = regexp.MustCompile(`[^A-Za-z0-9.-]`)

// id returns an identifier as SPDX allows it.
func id(parts ...string) common.ElementID {
	return common.ElementID(unusual.ReplaceAllString(strings.Join(parts, "-"), "-"))
}
