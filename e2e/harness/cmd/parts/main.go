// Command parts builds the programs of other projects that the tests run, where the user's
// cache folder lacks them. A test builds what it needs too; this does it beforehand.
package main

import (
	"fmt"
	"os"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

func main() {
	if err := harness.BuildParts(); err != nil {
		fmt.Fprintln(os.Stderr, "parts:", err)
		os.Exit(1)
	}
}
