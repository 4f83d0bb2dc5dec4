package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// onTerminal runs the command on a terminal of a width, and returns what that shows.
func onTerminal(t *testing.T, columns uint16, env []string, args ...string) string {
	t.Helper()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminal: ", err)
	}
	defer terminal.Close()
	fd := int(terminal.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: columns})
	}
	check(t, err)
	tty, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	check(t, err)
	cmd := asProgram(t, env, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	shown := make(chan string)
	go func() {
		text, _ := io.ReadAll(terminal) // ends with an error when the last writer closes it
		shown <- strings.ReplaceAll(string(text), "\r\n", "\n")
	}()
	check(t, cmd.Start())
	tty.Close()
	_ = cmd.Wait() // the exit code is no matter
	return <-shown
}

// asProgram is the test's own program, which TestMain lets run the command.
func asProgram(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	check(t, err)
	cmd := exec.Command(program, args...)
	cmd.Env = append([]string{asMain + "=1", "HOME=" + t.TempDir(), "TERM=xterm"}, env...)
	return cmd
}

// Text is broken at the terminal's width, for which COLUMNS has precedence. Tables and commands are not.
func TestTerminal_Width(t *testing.T) {
	for _, c := range []struct {
		columns uint16
		env     string
		want    int
	}{{80, "", 80}, {132, "", 132}, {20, "", 60}, {132, "COLUMNS=70", 70}, {80, "COLUMNS=10", 60}} {
		shown := onTerminal(t, c.columns, []string{"NO_COLOR=1", c.env}, "check", "--all", "--snapshot", sample)
		longest, rows := 0, 0
		for line := range strings.Lines(shown) {
			switch n := utf8.RuneCountInString(strings.TrimSpace(line)); {
			case strings.HasPrefix(line, "10.") || strings.HasPrefix(line, "ADDRESS "):
				rows = max(rows, n)
			case !strings.HasPrefix(line, "Snapshot ") && !strings.HasPrefix(line, "      "): // a command to copy
				longest = max(longest, n)
			}
		}
		if longest > c.want || longest < c.want-12 || rows < 100 {
			t.Errorf("%+v: the longest line of text has %d characters, and the longest row %d:\n%s", c, longest, rows, shown)
		}
	}
}

func TestTerminal_Colours(t *testing.T) {
	for env, want := range map[string]bool{"": true, "NO_COLOR=": true, "NO_COLOR=1": false, "TERM=dumb": false} {
		shown := onTerminal(t, 120, []string{env}, "check", "--snapshot", sample)
		if strings.Contains(shown, "  \x1b[31mStale\x1b[0m  ") != want || !want && strings.Contains(shown, "\x1b") {
			t.Errorf("%q: %q", env, shown)
		}
	}
	if shown := onTerminal(t, 120, nil, "check", "--snapshot", sample, "-o", "yaml"); strings.Contains(shown, "\x1b") {
		t.Error("a document has colours")
	}
	if out, _ := asProgram(t, nil, "check", "--snapshot", sample).Output(); bytes.Contains(out, []byte("\x1b")) {
		t.Error("a pipe has colours")
	}
}

// A cut is said in the last line. Nothing is cut in a pipe, nor with --all or -o.
func TestTerminal_Cut(t *testing.T) {
	dir := copySample(t)
	leakMany(t, dir)
	for _, more := range [][]string{nil, {"--all"}, {"-o", "wide"}, {"-o", "table"}} {
		args := append([]string{"check", "--verdict", "Stale", "--snapshot", dir}, more...)
		shown := onTerminal(t, 120, []string{"NO_COLOR=1"}, args...)
		pipe, _ := asProgram(t, nil, args...).Output()
		rows := strings.Count(shown, " Stale ")
		all := bytes.Count(pipe, []byte(" Stale "))
		last := fmt.Sprintf("\n\nNot shown: %d rows. -o wide shows all.\n", all-40)
		if isCut := more == nil; strings.HasSuffix(shown, last) != isCut || isCut && rows != 40 || !isCut && rows != all ||
			all <= 40 || bytes.Contains(pipe, []byte("Not shown")) {
			t.Errorf("%v: of %d rows there are %d:\n%s", more, all, rows, shown)
		}
	}
}

// A cluster that does not answer.
func TestTerminal_Progress(t *testing.T) {
	t.Parallel()                     // it waits
	slow := func() (args []string) { // it answers nothing in the first four seconds after the first request
		answers := sync.OnceValue(func() time.Time { return time.Now().Add(4 * time.Second) })
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Until(answers()))
			w.WriteHeader(http.StatusUnauthorized) // which ends the command
		}))
		t.Cleanup(server.Close)
		return []string{"check", "--kubeconfig", kubeconfigOf(t, server.URL), "--request-timeout", "10s"}
	}
	const says = "a request without an answer ends after 10s (2s so far)"
	var stderr bytes.Buffer
	cmd := asProgram(t, nil, slow()...)
	cmd.Stderr = &stderr
	check(t, cmd.Start())
	shown := onTerminal(t, 120, nil, slow()...)
	if !strings.Contains(shown, says+"\r\x1b[K") || strings.Contains(shown, "so far)\n") {
		t.Errorf("the terminal shows %q", shown)
	}
	for line := range strings.SplitSeq(onTerminal(t, 20, []string{"COLUMNS=100"}, slow()...), "\r\x1b[K") {
		if n := utf8.RuneCountInString(line); strings.HasPrefix(line, "Connecting") && n >= 20 {
			t.Errorf("a terminal of 20 columns has a line of %d: %q", n, line)
		}
	}
	if _ = cmd.Wait(); !strings.HasPrefix(stderr.String(), "Connecting to the cluster; "+says+"\n") {
		t.Errorf("a pipe has %q", &stderr)
	}
}
