package main

import (
	"strings"
	"testing"
)

// What -o name prints is given to other commands: it must have what is released, and nothing that is in use.
func TestNames_OfRunAndRelease(t *testing.T) {
	const all = "10.0.0.20 10.0.0.21 10.0.0.22 10.0.0.23 10.0.0.24 10.0.0.26 10.0.0.27 10.1.0.3 10.1.0.4"
	for command, want := range map[string]string{
		"run --dry-run":                       all,
		"run":                                 all,
		"run --dry-run --reason PodGone":      "10.0.0.27 10.1.0.4",
		"run --dry-run --pool broken":         "",
		"release 10.0.0.20 10.0.0.7 10.0.0.1": "10.0.0.20",
		"release 10.0.0.20 10.0.0.7 10.0.0.1 --dry-run ": "10.0.0.20",
		"release 10.0.0.1": "",
	} {
		_, out, errs := run(t, append(strings.Fields(command), "--snapshot", sample, "-o", "name")...)
		if got := strings.Join(strings.Fields(out), " "); got != want {
			t.Errorf("%s prints %q, want %q\n%s", command, got, want, errs)
		}
	}
}

func TestCheck_NamedVerdictOrReasonHasItsRows(t *testing.T) {
	for _, filter := range []string{"--verdict InUse", "--reason SandboxReady"} {
		_, out, _ := run(t, append(strings.Fields("check "+filter), "--snapshot", sample)...)
		if !strings.Contains(out, "IN USE (") || !strings.Contains(out, "\n10.0.0.30  InUse") {
			t.Errorf("%s shows no row in use:\n%s", filter, out)
		}
	}
}
