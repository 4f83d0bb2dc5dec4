package agent

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// File systems of namespace files (include/uapi/linux/magic.h). Before Linux 3.19 they were files of proc.
const (
	nsfsMagic = 0x6e736673
	procMagic = 0x9fa0
)

// isNamespace reports whether a file is a namespace, not the plain file below its mount. It is true if unknown.
func isNamespace(path string) bool {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil {
		return true
	}
	return int64(fs.Type) == nsfsMagic || int64(fs.Type) == procMagic
}

// receivesMounts reports whether future mounts of the node in a folder reach this process. The mount of that folder
// must be shared or a slave (proc_pid_mountinfo(5), optional fields).
func receivesMounts(dir string) bool {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false
	}
	longest, sees := -1, false
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 7 {
			continue
		}
		if at := f[4]; len(at) >= longest && (at == "/" || dir == at || strings.HasPrefix(dir, at+"/")) {
			longest, sees = len(at), strings.HasPrefix(f[6], "shared:") || strings.HasPrefix(f[6], "master:")
		}
	}
	return sees
}
