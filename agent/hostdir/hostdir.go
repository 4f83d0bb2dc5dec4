// Package hostdir detects a folder of the node that was deleted and created again while this container has it mounted.
// The mount shows the deleted folder for ever, which is empty.
package hostdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrReplaced means that the container has a deleted folder of the node. Only a new container has the new one.
var ErrReplaced = errors.New("the folder was deleted and created again on the node: " +
	"this container still has the old one and must be restarted")

// Explain returns the error of an attempt to read or open a path. If the path is missing because the folder with it was
// deleted under its mount, the error also wraps ErrReplaced and names the folder.
func Explain(path string, err error) error {
	if dir := deletedFolder(path); dir != "" {
		return fmt.Errorf("%w: %s: %w", err, dir, ErrReplaced)
	}
	return err
}

// deletedFolder returns the nearest folder on a path, or above it, that exists, if it was deleted. A path leads to a
// deleted folder only through a mount of it. It returns "" otherwise.
func deletedFolder(path string) string {
	for {
		info, err := os.Stat(path)
		if err == nil {
			if info.IsDir() && isDeleted(info) {
				return path
			}
			return ""
		}
		parent := filepath.Dir(path)
		if !errors.Is(err, fs.ErrNotExist) || parent == path {
			return ""
		}
		path = parent
	}
}
