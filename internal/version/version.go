// Package version identifies the build of a program for --version, ip_reconcile_build_info and the User-Agent.
package version

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// linkedVersion and linkedRevision are set by the linker (-X in the Makefile). A source tree has no module version,
// and a build of an image has no version control. linkedDocs is the URL where the builder publishes the folder docs.
var linkedVersion, linkedRevision, linkedDocs string

// Info identifies a build.
type Info struct {
	// Version is the release, as in 0.1.0, or the module version, as in v0.1.0; "devel" if unknown.
	Version string
	// Revision is the commit, with "-dirty" if files were modified; "unknown" if unknown.
	Revision string
	// GoVersion is the version of the compiler, as in go1.26.
	GoVersion string
}

// Get returns the build of the running program.
func Get() Info {
	build, _ := debug.ReadBuildInfo()
	return read(cmp.Or(build, &debug.BuildInfo{}), linkedVersion, linkedRevision)
}

// read prefers linked values to those that the go command recorded.
func read(build *debug.BuildInfo, version, revision string) Info {
	recorded := map[string]string{}
	for _, s := range build.Settings {
		recorded[s.Key] = s.Value
	}
	commit := recorded["vcs.revision"]
	if commit != "" && recorded["vcs.modified"] == "true" {
		commit += "-dirty"
	}
	return Info{
		Version:   cmp.Or(version, strings.Trim(build.Main.Version, "()"), "devel"), // Go says (devel) for none
		Revision:  cmp.Or(revision, commit, "unknown"),
		GoVersion: cmp.Or(build.GoVersion, "unknown"),
	}
}

// Page returns where a page of the folder docs is, as in "operate/restore.md": its URL if the builder publishes the
// pages (make build DOCS_URL=URL), else its path in the sources.
func Page(path string) string { return page(linkedDocs, path) }

func page(url, path string) string {
	return cmp.Or(strings.TrimSuffix(url, "/"), "docs") + "/" + path
}

// String returns what --version prints after the program's name.
func (i Info) String() string {
	return fmt.Sprintf("%s (revision %s, %s)", i.Version, i.Revision, i.GoVersion)
}

// UserAgent returns the User-Agent of a component, as in "ip-reconcile/0.1.0 (agent)".
func (i Info) UserAgent(component string) string {
	return fmt.Sprintf("ip-reconcile/%s (%s)", i.Version, component)
}

// Collector returns the metric ip_reconcile_build_info, which is always 1.
func (i Info) Collector() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "ip_reconcile_build_info",
		Help:        "The build that runs, by its labels; always 1.",
		ConstLabels: prometheus.Labels{"version": i.Version, "revision": i.Revision, "goversion": i.GoVersion},
	}, func() float64 { return 1 })
}
