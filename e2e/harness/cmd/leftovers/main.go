// Command leftovers lists what killed test runs have left on the machine, and fails when
// there is anything.
package main

import (
	"fmt"
	"os"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

func main() {
	leftovers, err := harness.Leftovers()
	for _, l := range leftovers {
		fmt.Println("leftover:", l)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "leftovers:", err)
	}
	if err != nil || len(leftovers) > 0 {
		os.Exit(1)
	}
	fmt.Println("Tests have left no process, mount, network namespace, link or cgroup.")
}
