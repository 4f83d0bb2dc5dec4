// Command left fails when there is anything of a cluster on the machine, and says
// what.
package main

import (
	"fmt"
	"os"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

func main() {
	left, err := harness.Left()
	for _, l := range left {
		fmt.Println("left:", l)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "left:", err)
	}
	if err != nil || len(left) > 0 {
		os.Exit(1)
	}
	fmt.Println("Tests have left no process, mount, network namespace, link or cgroup.")
}
