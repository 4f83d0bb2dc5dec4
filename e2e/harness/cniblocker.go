package harness

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A CNIBlocker is a CNI plugin in a chain whose ADD waits while the blocker is on. After whereabouts it holds an ADD
// where the address is recorded and the runtime does not list the sandbox.
type CNIBlocker struct{ file string }

// NewCNIBlocker returns a blocker that is off.
func (c *ControlPlane) NewCNIBlocker() CNIBlocker {
	return CNIBlocker{file: filepath.Join(c.run.dir, "blocker-"+randomHex(4))}
}

// Block makes ADDs wait.
func (b CNIBlocker) Block() error { return os.WriteFile(b.file, nil, 0o600) }

// Unblock lets waiting ADDs continue.
func (b CNIBlocker) Unblock() error {
	if err := os.Remove(b.file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Waiting returns the ids of the sandboxes whose ADD, or with HoldDELs DEL, waits.
func (b CNIBlocker) Waiting() []string {
	files, _ := filepath.Glob(b.file + ".*")
	ids := []string{}
	for _, f := range files {
		ids = append(ids, strings.TrimPrefix(f, b.file+"."))
	}
	return ids
}

func (b CNIBlocker) asPlugin() map[string]any {
	return map[string]any{"type": "cniblocker", "file": b.file}
}
