package main

import (
	"fmt"
	"html"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// forwardFor is how long a browser has to read the file that leads to the page.
const forwardFor = time.Minute

// openBrowser opens a URL in the user's browser. Where there is none, and on an error, it does nothing: the URL is
// printed, too. The caller calls done when the page ends.
//
// The URL has a token, and every user of the machine can read the arguments of a process. So the browser is given
// a file that only this user can read, and that leads to the URL. It is in the home folder, because browsers in a
// sandbox cannot read temporary folders.
func openBrowser(url string) (done func()) {
	opener := browserOpener(runtime.GOOS, os.Getenv)
	home, err := os.UserHomeDir()
	if len(opener) == 0 || err != nil {
		return func() {}
	}
	path, err := exec.LookPath(opener[0])
	if err != nil {
		return func() {}
	}
	file, err := writeForward(home, url)
	if err != nil {
		return func() {}
	}
	remove := func() { _ = os.Remove(file) }
	c := exec.Command(path, append(opener[1:], file)...) //nolint:gosec // a constant program, and a file of our own
	c.SysProcAttr = ownSession()                         // so that Ctrl-C ends this program, and not the browser
	if c.Start() != nil {
		remove()
		return func() {}
	}
	go func() { _ = c.Wait() }() // an opener may run for as long as the browser
	timer := time.AfterFunc(forwardFor, remove)
	return func() {
		timer.Stop()
		remove()
	}
}

// browserOpener returns the program that opens a file in the user's browser, with its first arguments. It returns
// nothing for a session without a screen.
func browserOpener(system string, getenv func(string) string) []string {
	switch isRemote := getenv("SSH_CONNECTION") != ""; {
	case system == "windows" && !isRemote:
		return []string{"rundll32", "url.dll,FileProtocolHandler"}
	case system == "darwin" && !isRemote:
		return []string{"open"}
	case system != "windows" && system != "darwin" && (getenv("DISPLAY") != "" || getenv("WAYLAND_DISPLAY") != ""):
		return []string{"xdg-open"}
	}
	return nil
}

// writeForward writes a file that leads a browser to a URL, for this user alone.
func writeForward(folder, url string) (path string, err error) {
	f, err := os.CreateTemp(folder, "ip-reconcile-ui-*.html") // 0600
	if err != nil {
		return "", err
	}
	_, err = fmt.Fprintf(f, `<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">`+
		`<meta http-equiv="refresh" content="0; url=%[1]s"><title>ip-reconcile</title><a href="%[1]s">ip-reconcile</a>`+"\n",
		html.EscapeString(url))
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}
