package hostdir

import (
	"io/fs"
	"syscall"
)

// isDeleted reports whether a folder that exists has no name any more: its link count is 0.
func isDeleted(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink == 0
}
