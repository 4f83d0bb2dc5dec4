package harness

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// addressesIn returns the configured addresses of a network namespace, without link-local and loopback ones. It enters
// the namespace itself: a process for each of a hundred namespaces would take too long.
func addressesIn(netNS string) (addresses map[string][]netip.Addr, err error) {
	there, err := os.Open(netNS)
	if err != nil {
		return nil, err
	}
	defer there.Close()
	// A thread that ends takes along the daemons it started, so it must return.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	defer here.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("looking into network namespace %s: %w", filepath.Base(netNS), err)
	}
	defer func() {
		if err := unix.Setns(int(here.Fd()), unix.CLONE_NEWNET); err != nil {
			panic("a thread is lost in a network namespace: " + err.Error())
		}
	}()
	links, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	addresses = map[string][]netip.Addr{}
	for _, l := range links {
		all, err := l.Addrs()
		if err != nil {
			return nil, err
		}
		for _, a := range all {
			p, err := netip.ParsePrefix(a.String())
			if err != nil {
				return nil, err
			}
			if ip := p.Addr(); !ip.IsLoopback() && !ip.IsLinkLocalUnicast() {
				addresses[l.Name] = append(addresses[l.Name], ip)
			}
		}
	}
	return addresses, nil
}

// gone reports whether a network namespace, or the whole node, did not exist: a namespace's file is created before and
// removed after it.
func gone(err error) bool { return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.EINVAL) }
