// Package multicall makes one binary of several programs: those that share most of their code are then linked once.
package multicall

import (
	"fmt"
	"os"
	"path/filepath"
)

// Main acts as the program that the binary is called by, or that its first argument names.
func Main(programs map[string]func()) {
	self := filepath.Base(os.Args[0])
	name := self
	if programs[name] == nil && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = filepath.Base(os.Args[0])
	}
	run, ok := programs[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "%s: no program %q in this binary\n", self, name)
		os.Exit(2)
	}
	run()
}
