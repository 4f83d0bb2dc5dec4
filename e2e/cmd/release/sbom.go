package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

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
