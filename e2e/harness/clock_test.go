package harness

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestTheClockOfOneProcessIsPutForward has this program tell the time, once more.
func TestTheClockOfOneProcessIsPutForward(t *testing.T) {
	if os.Getenv("E2E_TELL_THE_TIME") != "" {
		_, _ = fmt.Scanln()
		fmt.Fprintln(os.Stderr, time.Now().Unix())
		os.Exit(0)
	}
	t.Parallel()
	if why := Unsupported(); why != "" {
		t.Skip(why)
	}
	tells := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	tells.Env = append(os.Environ(), "E2E_TELL_THE_TIME=1")
	input, err := tells.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	tells.Stderr = &out
	if err := tells.Start(); err != nil {
		t.Fatal(err)
	}
	if err := shiftClock(tells.Process.Pid, time.Hour); err != nil {
		t.Error(err)
	}
	_, _ = input.Write([]byte("\n"))
	if err := tells.Wait(); err != nil {
		t.Fatal(err)
	}
	told, err := strconv.ParseInt(strings.TrimSpace(out.String()), 10, 64)
	if ahead := time.Until(time.Unix(told, 0)); err != nil || ahead < 59*time.Minute || ahead > 61*time.Minute {
		t.Errorf("it is ahead by %s: %v", ahead, err)
	}
}
