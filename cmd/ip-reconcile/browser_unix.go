//go:build !windows

package main

import "syscall"

// ownSession starts a program without this terminal.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
