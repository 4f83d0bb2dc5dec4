package harness

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A Gate is a CNI plugin in a chain whose ADD waits while the gate is shut. After
// whereabouts it holds an ADD where the address is recorded and the runtime does not
// list the sandbox.
type Gate struct {
	Before bool // before macvlan and whereabouts, not after
	file   string
}

// NewGate returns a gate that is open.
func (c *Cluster) NewGate() Gate {
	return Gate{file: filepath.Join(c.run.dir, "gate-"+randomHex(4))}
}

// Shut makes ADDs wait.
func (g Gate) Shut() error { return os.WriteFile(g.file, nil, 0o600) }

// Open lets all go on that wait.
func (g Gate) Open() error {
	if err := os.Remove(g.file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Waiting returns the ids of the sandboxes whose ADD, or with HoldDELs DEL, waits.
func (g Gate) Waiting() []string {
	files, _ := filepath.Glob(g.file + ".*")
	ids := []string{}
	for _, f := range files {
		ids = append(ids, strings.TrimPrefix(f, g.file+"."))
	}
	return ids
}

func (g Gate) asPlugin() map[string]any { return map[string]any{"type": "gate", "file": g.file} }
