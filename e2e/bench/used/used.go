// Package used measures the cost of a program.
package used

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Used is the cost of one run of a program.
type Used struct {
	Seconds float64 // wall time
	CPU     float64 // user and system, in seconds
	MiB     float64 // resident at most
	Peak    float64 `json:",omitempty"` // the same, where MiB is what was resident in the end
	Code    int
	Output  string `json:",omitempty"` // the end of its stderr
}

// Measure runs a program to its end, discards its output, and writes its cost to the writer. The kernel counts the
// parent's resident memory at the start as the child's, so a parent larger than the program, with the memory of a
// benchmark, is of no use.
func Measure(program []string, to io.Writer) error {
	cmd := exec.Command(program[0], program[1:]...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	began := time.Now()
	err := cmd.Run()
	took := time.Since(began)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	state := cmd.ProcessState
	usage := state.SysUsage().(*syscall.Rusage)
	return json.NewEncoder(to).Encode(Used{
		Seconds: took.Seconds(), CPU: (state.UserTime() + state.SystemTime()).Seconds(),
		MiB: float64(usage.Maxrss) / 1024, Code: state.ExitCode(),
	})
}

// Slope is by how much a line through the values rises from one to the next, by least squares.
func Slope(values []float64) float64 {
	var sum, weights float64
	middle := float64(len(values)-1) / 2
	for i, v := range values {
		sum, weights = sum+(float64(i)-middle)*v, weights+(float64(i)-middle)*(float64(i)-middle)
	}
	return sum / max(weights, 1)
}
