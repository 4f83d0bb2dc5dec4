package harness

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// addressesIn returns the addresses that are configured in a network namespace, by
// interface, without link-local and loopback ones.
func addressesIn(netNS string) (found map[string][]netip.Addr, err error) {
	err = inNetNS(netNS, func() error {
		links, err := net.Interfaces()
		if err != nil {
			return err
		}
		found = map[string][]netip.Addr{}
		for _, l := range links {
			addresses, err := l.Addrs()
			if err != nil {
				return err
			}
			for _, a := range addresses {
				if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsGlobalUnicast() {
					found[l.Name] = append(found[l.Name], p.Addr())
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("looking into network namespace %s: %w", filepath.Base(netNS), err)
	}
	return found, nil
}

// inNetNS does something in a network namespace. Tests look into a hundred of them
// twice a second, so no process is started for it.
func inNetNS(path string, do func() error) error {
	there, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(there)
	runtime.LockOSThread()
	here, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer unix.Close(here)
	if err := unix.Setns(there, unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	err = do()
	// A thread that cannot come back must not be used again: it stays locked, and
	// ends with its goroutine.
	if back := unix.Setns(here, unix.CLONE_NEWNET); back != nil {
		return back
	}
	runtime.UnlockOSThread()
	return err
}
