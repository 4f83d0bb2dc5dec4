//go:build !linux

package hostdir

import "io/fs"

// isDeleted returns false. The agent runs on Linux only.
func isDeleted(fs.FileInfo) bool { return false }
