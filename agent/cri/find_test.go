package cri_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/agent/cri"
)

func TestFindSocket_Named(t *testing.T) {
	for flag, want := range map[string]string{
		"/run/containerd/containerd.sock": "/run/containerd/containerd.sock",
		"unix:///run/crio/crio.sock":      "/run/crio/crio.sock",
		"/not/there.sock":                 "/not/there.sock",
	} {
		if got, err := cri.FindSocket(flag); err != nil || got != want {
			t.Errorf("%s: got %s, %v", flag, got, err)
		}
	}
	for _, flag := range []string{"crio.sock", "run/crio.sock", "unix://crio.sock", "unix://", "tcp://127.0.0.1:1234"} {
		if got, err := cri.FindSocket(flag); err == nil || !strings.Contains(err.Error(), "--cri") {
			t.Errorf("%s: got %s, %v", flag, got, err)
		}
	}
}

// The usual paths are fixed, so this test depends on the machine.
func TestFindSocket_Default(t *testing.T) {
	var there []string
	for _, path := range cri.DefaultSockets() {
		if !filepath.IsAbs(path) {
			t.Errorf("%s is not absolute", path)
		}
		if c, err := net.Dial("unix", path); err == nil {
			c.Close()
			there = append(there, path)
		}
	}
	got, err := cri.FindSocket("")
	switch len(there) {
	case 0:
		if err == nil {
			t.Skipf("%s is a socket at which nobody listens", got)
		}
		if !strings.Contains(err.Error(), "--cri") {
			t.Errorf("got %v", err)
		}
	case 1:
		if err == nil && got != there[0] {
			t.Errorf("got %s, want %s", got, there[0])
		}
	default:
		if err == nil {
			t.Errorf("several are there, and %s is taken", got)
		}
	}
}
