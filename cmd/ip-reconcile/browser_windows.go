package main

import "syscall"

// ownSession starts a program that Ctrl-C in this console does not reach.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
