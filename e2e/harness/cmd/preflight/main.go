// Command why says which tests a test run leaves out on this machine, and why.
// Where IP_RECONCILE_REAL is set, as in CI, leaving them out is a failure.
package main

import (
	"fmt"
	"os"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

func main() {
	left := map[string]string{"every test on a real API server with the real whereabouts plugin": harness.Unsupported()}
	if harness.Unsupported() == "" {
		for _, f := range []harness.Flavour{harness.ContainerdV2, harness.ContainerdDebian} {
			left["every test with "+f.Name] = f.Unsupported()
		}
	}
	code := 0
	for what, reason := range left {
		if reason == "" {
			continue
		}
		fmt.Printf("Left out: %s: %s\n", what, reason)
		if os.Getenv("IP_RECONCILE_REAL") != "" {
			code = 1
		}
	}
	os.Exit(code)
}
