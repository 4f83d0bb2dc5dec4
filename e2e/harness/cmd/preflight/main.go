// Command preflight prints which tests a test run skips on this machine, and why.
// Where IP_RECONCILE_REAL is set, as in CI, skipping them is a failure.
package main

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

func main() {
	skipped := map[string]string{"every test on a real API server with the real whereabouts plugin": harness.Unsupported()}
	if harness.Unsupported() == "" {
		for _, f := range []harness.Flavour{harness.ContainerdV2, harness.ContainerdDebian} {
			skipped["every test with "+f.Name] = f.Unsupported()
		}
	}
	for _, tool := range []string{"chromium", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			skipped["the tests of the page in a browser, which need Debian's "+tool] = err.Error()
		}
	}
	code := 0
	for what, reason := range skipped {
		if reason == "" {
			continue
		}
		fmt.Printf("Skipped: %s: %s\n", what, reason)
		if os.Getenv("IP_RECONCILE_REAL") != "" {
			code = 1
		}
	}
	os.Exit(code)
}
