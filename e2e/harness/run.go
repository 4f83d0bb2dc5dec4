package harness

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

var errLocked = errors.New("locked by another process")

// A run is what one cluster has on the machine: a folder, mounts in it, and links and cgroups whose names begin with
// the run's prefix. The owner holds a lock in the folder while it lives, so whoever gets the lock may clean up.
type run struct {
	id, dir string
	unlock  func()
}

func runsDir() string { return filepath.Join(os.TempDir(), "ip-reconcile-e2e") }

// linkPrefix is the prefix of all links of the run with this id. Link names have 15 characters at most.
func linkPrefix(id string) string { return "ipr" + id }

// newRun creates a run, and removes those with a dead owner. It and close hold one lock, so that no new or ending
// folder is taken for a dead one.
func newRun() (*run, error) {
	if err := os.MkdirAll(runsDir(), 0o700); err != nil {
		return nil, err
	}
	unlock, err := lockRuns()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := sweep(); err != nil {
		return nil, fmt.Errorf("removing what an earlier run left in %s (remove it by hand): %w", runsDir(), err)
	}
	r := &run{id: randomHex(3)}
	r.dir = filepath.Join(runsDir(), r.id)
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		return nil, err
	}
	r.unlock, err = lock(filepath.Join(r.dir, "owner"))
	return r, err
}

// close removes all traces of the run from the machine.
func (r *run) close() error {
	unlock, err := lockRuns()
	if err != nil {
		return err
	}
	defer unlock()
	defer r.unlock()
	return scrub(r.dir)
}

func lockRuns() (func(), error) { return lock(filepath.Join(runsDir(), "lock")) }

// Sweep removes what remains of killed runs on the machine, also links and cgroups of runs without a folder: the
// temporary folder was cleared, or kubelet created a cgroup late.
func Sweep() error {
	if err := os.MkdirAll(runsDir(), 0o700); err != nil {
		return err
	}
	unlock, err := lockRuns()
	if err != nil {
		return err
	}
	defer unlock()
	ids, err := idsOfRuns()
	errs := []error{err}
	for _, id := range ids {
		errs = append(errs, sweepRun(filepath.Join(runsDir(), id)))
	}
	return errors.Join(errs...)
}

// sweep removes the runs that have a folder and no owner.
func sweep() error {
	entries, err := os.ReadDir(runsDir())
	errs := []error{err}
	for _, e := range entries {
		if e.IsDir() {
			errs = append(errs, sweepRun(filepath.Join(runsDir(), e.Name())))
		}
	}
	return errors.Join(errs...)
}

func sweepRun(dir string) error {
	unlock, err := takeOver(dir)
	if err != nil || unlock == nil {
		return err
	}
	defer unlock()
	return scrub(dir)
}

// takeOver locks a run with a dead owner; unlock is nil if the owner lives. A run without a folder has no lock: it
// lives, with another temporary folder, if a process of it does.
func takeOver(dir string) (unlock func(), err error) {
	unlock, err = tryLock(filepath.Join(dir, "owner"))
	switch {
	case errors.Is(err, errLocked):
		return nil, nil
	case !errors.Is(err, fs.ErrNotExist):
		return unlock, err
	}
	processes, err := processesOf("/" + filepath.Join(filepath.Base(runsDir()), filepath.Base(dir)))
	if err != nil || len(processes) > 0 {
		return nil, err
	}
	return func() {}, nil
}

// scrub removes a run's mounts, links, cgroups and folder. The mounts go first: a network
// namespace ends with its last mount, and the links in it end with it.
func scrub(dir string) error {
	errs := []error{unmountBelow(dir)}
	links, err := os.ReadDir("/sys/class/net")
	errs = append(errs, err)
	for _, l := range links {
		if !strings.HasPrefix(l.Name(), linkPrefix(filepath.Base(dir))) || !linkExists(l.Name()) {
			continue
		}
		// A link ends with the other end of its pair, even just now.
		if err := iproute("link", "del", l.Name()); err != nil && linkExists(l.Name()) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, removeCgroups(linkPrefix(filepath.Base(dir))))
	if err := errors.Join(errs...); err != nil {
		return err // the folder stays, for the next sweep to find
	}
	return os.RemoveAll(dir)
}

func linkExists(name string) bool {
	_, err := os.Lstat(filepath.Join("/sys/class/net", name))
	return err == nil
}

func randomHex(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b)
	return hex.EncodeToString(b)
}
