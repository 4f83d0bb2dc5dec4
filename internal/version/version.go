// Package version knows which build of ip-reconcile a program is: for --version, for
// the metric ip_reconcile_build_info and for the User-Agent of Kubernetes clients.
package version

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// linkedVersion and linkedRevision are set by the linker (-X in the Makefile): a build
// from a source tree has no module version, and one in an image no version control.
var linkedVersion, linkedRevision string

// Info identifies a build.
type Info struct {
	// Version is that of the release, as in 0.1.0, or the module's, as in v0.1.0;
	// "devel" where neither is known.
	Version string
	// Revision is the commit it was built from, with "-dirty" where files were modified;
	// "unknown" where it is not known.
	Revision string
	// GoVersion is that of the compiler, as in go1.26.
	GoVersion string
}

// Get returns the identity of the running program.
func Get() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		build = &debug.BuildInfo{}
	}
	return read(build, linkedVersion, linkedRevision)
}

// read prefers what was linked in to what the go command recorded.
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

// String is what --version prints after the program's name.
func (i Info) String() string {
	return fmt.Sprintf("%s (revision %s, %s)", i.Version, i.Revision, i.GoVersion)
}

// UserAgent is the User-Agent of a component's requests to the API server, as in
// "ip-reconcile/0.1.0 (agent)".
func (i Info) UserAgent(component string) string {
	return fmt.Sprintf("ip-reconcile/%s (%s)", i.Version, component)
}

// Collector is the metric ip_reconcile_build_info, always 1.
func (i Info) Collector() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "ip_reconcile_build_info",
		Help:        "The build that runs, by its labels; always 1.",
		ConstLabels: prometheus.Labels{"version": i.Version, "revision": i.Revision, "goversion": i.GoVersion},
	}, func() float64 { return 1 })
}
