package cri_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/agent/cri"
	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
)

func TestWatch_OnlySharedEvents(t *testing.T) {
	for version, takes := range map[string]bool{
		"1.6.20~ds1": false, "v1.7.13": false, "1.7.30-k3s1": false, "": false, "unknown": false,
		"2.0.0": true, "v2.1.4-k3s2": true, "2.4.2+unknown": true, "10.0.0": true,
	} {
		t.Run(version, func(t *testing.T) {
			s := critest.Start(t, critest.Containerd)
			s.Upgrade(version)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- dial(t, s.Socket).Watch(ctx, stop) }()
			for {
				select {
				case err := <-ended:
					if errors.Is(err, cri.ErrEventsNotShared) == takes || (s.Calls("GetContainerEvents") > 0) != takes {
						t.Errorf("%d streams: %v", s.Calls("GetContainerEvents"), err)
					}
					return
				default:
					s.Set() // has no effect until the stream exists
				}
			}
		})
	}
}

func TestWatch_CallsChanged(t *testing.T) {
	changes := 0
	if err := dialOdd(t, &odd{events: 3}).Watch(t.Context(), func() { changes++ }); err == nil || changes != 3 {
		t.Errorf("%d of 3 changes, %v", changes, err)
	}
}

func TestWatch_Unsupported(t *testing.T) {
	err := dial(t, critest.Start(t, critest.CRIO).Socket).Watch(t.Context(), func() { t.Error("a change") })
	if err == nil || strings.Contains(err.Error(), "CRI v1") {
		t.Errorf("spoken as CRI-O does: %v", err)
	}
}

func TestWatch_EndsWithContext(t *testing.T) {
	s := critest.Start(t, critest.Containerd)
	r := dial(t, s.Socket)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.Watch(ctx, stop) }()
	for {
		select {
		case err := <-ended:
			if err == nil || ctx.Err() == nil {
				t.Errorf("ended with %v", err)
			}
			return
		default:
			s.Set() // has no effect until the stream exists
		}
	}
}

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
