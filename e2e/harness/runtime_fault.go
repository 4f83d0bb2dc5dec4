package harness

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// Kill ends containerd as a crash would, frozen or not. Shims and pods live on.
func (r *Runtime) Kill() { r.containerd.Kill() }

// Stop ends containerd in order, as its service's stop does. Shims and pods live on.
func (r *Runtime) Stop() error { return r.containerd.Stop() }

// Freeze keeps containerd from answering until Thaw.
func (r *Runtime) Freeze() error { return r.containerd.Freeze() }

// Thaw ends Freeze.
func (r *Runtime) Thaw() error { return r.containerd.Thaw() }

// LoseState removes all state of containerd, which must not run. Pods keep running, with their network namespaces and
// addresses, and the CNI caches stay.
func (r *Runtime) LoseState() error {
	root := r.Outside("/")
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.containerd.runs() {
		return errors.New("containerd runs: Kill or Stop it first")
	}
	r.lost++
	for _, dir := range []string{StateDir, RootDir} {
		// Moved, since the pods' own disks are below.
		if err := os.Rename(filepath.Join(root, dir), filepath.Join(root, fmt.Sprint(dir, ".lost", r.lost))); err != nil {
			return err
		}
	}
	return nil
}

// PowerOff ends all that runs on the node at once, network namespaces too, and empties its /run. Its disk stays.
func (r *Runtime) PowerOff() {
	r.mu.Lock()
	init := r.init
	r.mu.Unlock()
	init.kill()
	r.containerd.gone()
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

// LoseDELs makes whereabouts' part of every DEL succeed without any effect, or ends that. The links are removed all the
// same. It is CutWhereabouts in an instant.
func (r *Runtime) LoseDELs(lose bool) error { return r.onDEL("whereabouts", "exit 0", lose) }

// HoldDELs makes every DEL wait at a blocker in place of whereabouts: the pod's processes are gone, and its interfaces
// still exist. whereabouts' part is then lost, as with LoseDELs, which ends this too.
func (r *Runtime) HoldDELs(b CNIBlocker) error {
	return r.onDEL("whereabouts", fmt.Sprintf(`here=%s.$CNI_CONTAINERID
	[ -e %[1]s ] && : >$here
	while [ -e %[1]s ]; do sleep 0.05; done
	rm -f $here
	exit 0`, b.file), true)
}

// FailDELs makes macvlan answer every DEL with an error, before whereabouts is called and with the link in place, or
// ends that.
func (r *Runtime) FailDELs(fail bool) error {
	return r.onDEL("macvlan", `echo '{"cniVersion": "1.0.0", "code": 999, "msg": "the link is busy"}'; exit 1`, fail)
}

// onDEL replaces what a plugin does at a DEL, or ends that.
func (r *Runtime) onDEL(plugin, does string, on bool) error {
	link := filepath.Join(r.dir, "plugins", plugin)
	program := filepath.Join(r.Node.cluster.bin, plugin)
	next := link + ".next"
	if !on {
		return errors.Join(os.Symlink(program, next), os.Rename(next, link))
	}
	script := fmt.Sprintf("#!/bin/sh\nif [ \"$CNI_COMMAND\" = DEL ]; then\n\t%s\nfi\nexec %s \"$@\"\n", does, program)
	return errors.Join(os.WriteFile(next, []byte(script), 0o755), os.Rename(next, link))
}

// CutWhereabouts makes the API server unreachable for whereabouts alone, or ends that. A DEL of whereabouts 0.9.4 then
// takes its minute and reports success; the links are removed after that.
func (r *Runtime) CutWhereabouts(cut bool) error {
	c := r.Node.cluster
	kubeconfig := c.pluginKubeconfig()
	if cut {
		kubeconfig = filepath.Join(r.dir, "nowhere")
		if err := c.credentials.writeKubeconfig(kubeconfig, "https://"+net.JoinHostPort(c.address.String(), "1"),
			c.credentials.pluginToken); err != nil {
			return err
		}
	}
	return os.WriteFile(r.Outside("/etc/cni/net.d/whereabouts.d/whereabouts.conf"), r.Node.flat(kubeconfig), 0o600)
}

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
