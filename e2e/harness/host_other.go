//go:build !linux

package harness

import (
	"errors"
	"net/netip"
	"syscall"
)

// The package compiles everywhere, so that it can be read and vetted anywhere; Unsupported keeps tests from calling
// this.
var errNotLinux = errors.New(Unsupported())

const sigStop, sigContinue = syscall.Signal(0), syscall.Signal(0)

func dieWithParent() *syscall.SysProcAttr     { return nil }
func ownNamespaces(bool) *syscall.SysProcAttr { return nil }
func lock(string) (func(), error)             { return nil, errNotLinux }
func tryLock(string) (func(), error)          { return nil, errNotLinux }
func unmountBelow(string) error               { return errNotLinux }
func unmount(string) error                    { return errNotLinux }
func gone(error) bool                         { return false }

func addressesIn(string) (map[string][]netip.Addr, error) { return nil, errNotLinux }
