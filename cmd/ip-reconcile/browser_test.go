package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestBrowserOpener_NeedsAScreen(t *testing.T) {
	for _, c := range []struct{ system, env, want string }{
		{"linux", "", ""},
		{"linux", "SSH_CONNECTION", ""},
		{"linux", "DISPLAY", "xdg-open"},
		{"linux", "WAYLAND_DISPLAY", "xdg-open"},
		{"freebsd", "DISPLAY", "xdg-open"},
		{"darwin", "", "open"},
		{"darwin", "SSH_CONNECTION", ""},
		{"windows", "", "rundll32 url.dll,FileProtocolHandler"},
		{"windows", "SSH_CONNECTION", ""},
	} {
		got := strings.Join(browserOpener(c.system, func(name string) string {
			if name == c.env {
				return "x"
			}
			return ""
		}), " ")
		if got != c.want {
			t.Errorf("%s with %q: %q, want %q", c.system, c.env, got, c.want)
		}
	}
}

// fakeOpener is a machine with a screen, whose opener notes its arguments and what it is to open. It returns the home
// folder and what reads the notes.
func fakeOpener(t *testing.T) (home string, read func(name string) string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the opener is that of Linux")
	}
	bin, home := t.TempDir(), t.TempDir()
	script := "#!/bin/sh\necho \"$@\" > " + bin + "/arguments\nls -l \"$1\" | cut -c1-10 > " + bin + "/mode\n" +
		"cat \"$1\" > " + bin + "/new && mv " + bin + "/new " + bin + "/content\n"
	check(t, os.WriteFile(filepath.Join(bin, "xdg-open"), []byte(script), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("DISPLAY", ":7")
	t.Setenv("HOME", home)
	return home, func(name string) string {
		text, err := os.ReadFile(filepath.Join(bin, name))
		if err != nil {
			return ""
		}
		return string(text)
	}
}

const tokenURL = "http://127.0.0.1:8080/ui/#token=SECRET"

// Every user of the machine can read the arguments of a process, so the token is in a file of this user alone.
func TestOpenBrowser_TheTokenIsInNoArgument(t *testing.T) {
	home, read := fakeOpener(t)
	done := openBrowser(tokenURL)
	for end := time.Now().Add(10 * time.Second); read("content") == "" && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if got := read("arguments"); !strings.HasPrefix(got, home+"/ip-reconcile-ui-") || strings.Contains(got, "SECRET") {
		t.Errorf("the opener has the arguments %q", got)
	}
	if mode := read("mode"); mode != "-rw-------\n" {
		t.Errorf("the file has the mode %q", mode)
	}
	if text := read("content"); !strings.Contains(text, `content="0; url=`+tokenURL+`"`) {
		t.Errorf("the file does not lead to the page: %s", text)
	}
	done()
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Errorf("the home folder has %v (%v)", left, err)
	}
}

func TestOpenBrowser_DoesNothingWithoutABrowser(t *testing.T) {
	home, _ := fakeOpener(t)
	for name, value := range map[string]string{"DISPLAY": "", "PATH": t.TempDir(), "HOME": ""} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("WAYLAND_DISPLAY", "")
			t.Setenv(name, value)
			openBrowser(tokenURL)()
			if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
				t.Errorf("the home folder has %v (%v)", left, err)
			}
		})
	}
}
