package version

import (
	"maps"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestInfo_Sources(t *testing.T) {
	git := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified",
			Value: modified}}
	}
	for name, c := range map[string]struct {
		build             debug.BuildInfo
		version, revision string
		want              Info
	}{
		"nothing is known": {want: Info{"devel", "unknown", "unknown"}},
		"a source tree without version control": {
			build: debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "(devel)"}}, want: Info{"devel", "unknown",
				"go1.26.8"}},
		"a clone": {
			build: debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "v0.1.0"},
				Settings: git("false")}, want: Info{"v0.1.0", "abc", "go1.26.8"}},
		"a modified clone": {
			build: debug.BuildInfo{Main: debug.Module{Version: "v0.1.0+dirty"},
				Settings: git("true")}, want: Info{"v0.1.0+dirty", "abc-dirty", "unknown"}},
		"make build": {
			build: debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-1-abc"},
				Settings: git("false")}, version: "0.1.0", want: Info{"0.1.0", "abc", "unknown"}},
		"the image": {version: "0.1.0", revision: "def", want: Info{"0.1.0", "def", "unknown"}},
	} {
		if got := read(&c.build, c.version, c.revision); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
	if got := Get().GoVersion; got != runtime.Version() {
		t.Errorf("Go version %s", got)
	}
}

func TestPage(t *testing.T) {
	for url, want := range map[string]string{"": "docs/operate/restore.md",
		"https://example.com/docs":  "https://example.com/docs/operate/restore.md",
		"https://example.com/docs/": "https://example.com/docs/operate/restore.md"} {
		if got := page(url, "operate/restore.md"); got != want {
			t.Errorf("%q: got %q, want %q", url, got, want)
		}
	}
}

func TestInfo_Outputs(t *testing.T) {
	i := Info{"0.1.0", "abc", "go1.26.8"}
	if got, want := i.String(), "0.1.0 (revision abc, go1.26.8)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := i.UserAgent("agent"), "ip-reconcile/0.1.0 (agent)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(i.Collector())
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "ip_reconcile_build_info" ||
		len(families[0].Metric) != 1 {
		t.Fatal(families, err)
	}
	labels := map[string]string{}
	for _, l := range families[0].Metric[0].Label {
		labels[l.GetName()] = l.GetValue()
	}
	if want := map[string]string{"version": "0.1.0", "revision": "abc", "goversion": "go1.26.8"}; !maps.Equal(labels,
		want) || families[0].Metric[0].GetGauge().GetValue() != 1 {
		t.Error(families[0])
	}
}
