package cri

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A path that cannot be looked at is not a socket that is missing.
func TestOnlySocket(t *testing.T) {
	dir := t.TempDir()
	socket, missing, loop := filepath.Join(dir, "socket"), filepath.Join(dir, "none"), filepath.Join(dir, "loop")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := os.Symlink(loop, loop); err != nil { // os.Stat fails for root, too
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		paths []string
		want  string
		says  string // the error
	}{
		"one is there":                   {[]string{missing, socket}, socket, ""},
		"none is there":                  {[]string{missing, dir}, "", "no socket of a container runtime"},
		"two are there":                  {[]string{socket, socket}, "", "several"},
		"one cannot be looked at":        {[]string{loop}, "", loop},
		"one of two cannot be looked at": {[]string{socket, loop}, "", loop},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := onlySocket(c.paths)
			if got != c.want || (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %q, %v", got, err)
			}
			if c.says == loop && strings.Contains(err.Error(), "no socket") {
				t.Errorf("got %v", err)
			}
		})
	}
}
