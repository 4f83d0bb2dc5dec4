package main

import (
	"cmp"
	"io"
	"os"
)

// create writes a file that does not exist yet, for its owner alone. It follows no link, and replaces nothing: what is
// there may be somebody else's. A file that could not be written whole is removed.
func create(path string, write func(io.Writer) error) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = cmp.Or(write(file), file.Close()); err != nil {
		_ = os.Remove(path)
	}
	return err
}
