package snapshot_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

// A must-gather is judged as of when it was gathered, and the first note says by what.
func TestTime_OfASnapshot(t *testing.T) {
	pod := strings.Replace(runningPodAt("7"), "metadata:\n", "metadata:\n  creationTimestamp: \"2026-11-19T08:00:00Z\"\n", 1)
	for says, c := range map[string]struct {
		files    map[string]string
		want, by string
	}{
		"the beginning that its timestamp file has": {map[string]string{"timestamp": "2026-11-20 13:00:00.5 +0100 CET m=+0.1\n2026-11-20 13:09:00 +0100 CET\n"}, "2026-11-20T12:00:00.5Z", "timestamp file"},
		"a timestamp without a zone":                {map[string]string{"image/timestamp": "2026-11-20 12:00:00\n"}, "2026-11-20T12:00:00Z", "timestamp file"},
		"the earliest of two":                       {map[string]string{"timestamp": "2026-11-20 12:00:00\n", "image/timestamp": "2026-11-20 12:05:00\n"}, "2026-11-20T12:00:00Z", "timestamp file"},
		"none that can be read":                     {map[string]string{"timestamp": "x"}, "2026-11-19T08:00:00Z", "the newest time in it"},
		"none":                                      {nil, "2026-11-19T08:00:00Z", "the newest time in it"},
	} {
		files := map[string]string{"pool.yaml": onePool, "pods.yaml": pod}
		for name, text := range c.files {
			files[name] = text
		}
		f, err := snapshot.Open(folder(t, files), time.Time{}, "kube-system")
		if err != nil {
			t.Fatal(err)
		}
		o := observe(t, f)
		equal(t, says, o.Now.UTC().Format(time.RFC3339Nano), c.want)
		if !strings.HasPrefix(o.Warnings[0], "judged as of ") || !strings.Contains(o.Warnings[0], c.by) {
			t.Errorf("%s: %q", says, o.Warnings)
		}
	}
	f, err := snapshot.Open(folder(t, map[string]string{"pool.yaml": onePool, "pods.yaml": pod}), time.Unix(1e9, 0), "kube-system")
	if err != nil {
		t.Fatal(err)
	}
	if o := observe(t, f); !o.Now.Equal(time.Unix(1e9, 0)) || strings.Contains(strings.Join(o.Warnings, " "), "judged as of") {
		t.Errorf("given: %s, %q", o.Now, o.Warnings)
	}
}
