package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Kill ends containerd as a crash would, frozen or not. Shims and pods live on.
func (r *Runtime) Kill() { r.containerd.Kill() }

// Stop ends containerd in order, as its service's stop does. Shims and pods live on.
func (r *Runtime) Stop() error { return r.containerd.Stop() }

// Freeze keeps containerd from answering until Thaw.
func (r *Runtime) Freeze() error { return r.containerd.Freeze() }

// Thaw ends Freeze.
func (r *Runtime) Thaw() error { return r.containerd.Thaw() }

// LoseState takes from containerd, which must not run, all that it knows. Pods run
// on, with their network namespaces and addresses, and the CNI caches stay.
func (r *Runtime) LoseState() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.containerd.runs() {
		return errors.New("containerd runs: Kill or Stop it first")
	}
	r.lost++
	root := filepath.Join("/proc", strconv.Itoa(r.init.cmd.Process.Pid), "root")
	for _, dir := range []string{StateDir, RootDir} {
		// Moved, since the pods' own disks are below.
		if err := os.Rename(filepath.Join(root, dir), filepath.Join(root, fmt.Sprint(dir, ".lost", r.lost))); err != nil {
			return err
		}
	}
	return nil
}

// PowerOff ends all that runs on the node at once, network namespaces too, and
// empties its /run. What is on its disk stays.
func (r *Runtime) PowerOff() {
	r.mu.Lock()
	init := r.init
	r.mu.Unlock()
	init.kill()
	r.containerd.gone()
}

// Reboot is PowerOff and Boot. What the Node object says of the boot is the
// caller's: Node.SetBootID.
func (r *Runtime) Reboot(ctx context.Context) error {
	r.PowerOff()
	return r.Boot(ctx)
}

func (r *Runtime) close() error {
	if r.init != nil {
		r.PowerOff()
	}
	var err error
	if r.conn != nil {
		err = r.conn.Close()
	}
	return errors.Join(err, removeCgroups(r.cgroup()))
}

// LoseDELs makes whereabouts' part of every DEL succeed without being done, or ends
// that. The links go all the same, as where its API access is cut: whereabouts
// 0.9.4 swallows the errors of a DEL.
func (r *Runtime) LoseDELs(lose bool) error {
	if !lose {
		link, whereabouts := r.whereabouts()
		return errors.Join(os.Symlink(whereabouts, link+".next"), os.Rename(link+".next", link))
	}
	return r.insteadOfDEL("true")
}

// HoldDELs makes every DEL wait at a gate where whereabouts' part of it would be:
// the pod's processes are gone, and its interfaces are still there. That part is
// then lost, as with LoseDELs, which ends this too.
func (r *Runtime) HoldDELs(g Gate) error {
	return r.insteadOfDEL(fmt.Sprintf(`here=%s.$CNI_CONTAINERID
	[ -e %[1]s ] && : >$here
	while [ -e %[1]s ]; do sleep 0.05; done
	rm -f $here`, g.file))
}

// insteadOfDEL has a script run in the place of whereabouts' part of a DEL.
func (r *Runtime) insteadOfDEL(script string) error {
	link, whereabouts := r.whereabouts()
	script = fmt.Sprintf("#!/bin/sh\nif [ \"$CNI_COMMAND\" = DEL ]; then\n\t%s\n\texit 0\nfi\nexec %s \"$@\"\n", script, whereabouts)
	return errors.Join(os.WriteFile(link+".next", []byte(script), 0o755), os.Rename(link+".next", link))
}

// whereabouts is the name by which plugins on the node call it, and what it is.
func (r *Runtime) whereabouts() (link, program string) {
	return filepath.Join(r.dir, "plugins", "whereabouts"), filepath.Join(r.Node.cluster.bin, "whereabouts")
}
