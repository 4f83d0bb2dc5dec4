//go:build linux

// Command probe says what a container lets its program see and do, until it is
// ended: environment, capabilities, and for each argument, a path, whether it is a
// socket that takes a connection, a folder (and what is in it), or cannot be made.
package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// nsfs is the file system of what the kernel's namespaces are mounted as.
const nsfs = 0x6e736673

func main() {
	fmt.Println(strings.Join(os.Environ(), "\n"))
	status, _ := os.ReadFile("/proc/self/status")
	fmt.Println(string(status))
	for ; ; time.Sleep(50 * time.Millisecond) {
		for _, path := range os.Args[1:] {
			probe(path)
		}
	}
}

func probe(path string) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		if err := os.Mkdir(path, 0o755); err != nil {
			fmt.Println(path, "is not made:", errors.Unwrap(err))
		}
	case info.Mode()&os.ModeSocket != 0:
		if conn, err := net.Dial("unix", path); err == nil {
			conn.Close()
			fmt.Println(path, "connects")
		}
	case info.IsDir():
		entries, _ := os.ReadDir(path)
		for _, e := range entries {
			var fs syscall.Statfs_t
			kind := "file"
			if syscall.Statfs(filepath.Join(path, e.Name()), &fs) == nil && fs.Type == nsfs {
				kind = "nsfs"
			}
			fmt.Println(e.Name(), kind)
		}
	}
}
