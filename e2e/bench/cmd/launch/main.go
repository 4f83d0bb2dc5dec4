// Command launch runs the program of its arguments and prints its cost. It is small: see package used.
package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/ip-reconcile/ip-reconcile/e2e/bench/used"
)

func main() {
	runtime.LockOSThread() // the child dies with the thread that started it
	if err := used.Measure(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "launch:", err)
		os.Exit(1)
	}
}
