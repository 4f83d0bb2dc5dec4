package main

import (
	"strings"
	"testing"
)

func TestAgent_NodeAndPodFromTheEnvironment(t *testing.T) {
	t.Setenv("NODE_NAME", "worker-1")
	t.Setenv("POD_UID", "uid-1")
	// The first complaint is of what comes after them.
	code, _, errs := run(t, "agent", "--cri", "cri.sock")
	if code != exitFailed || !strings.Contains(errs, "--cri") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
