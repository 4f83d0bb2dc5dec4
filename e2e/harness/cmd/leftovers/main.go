// Command leftovers lists what remains of killed test runs on the machine, and fails if there is anything.
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
	fmt.Println("No process, mount, network namespace, link or cgroup of a test remains.")
}
