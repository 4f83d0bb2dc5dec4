package harness

import (
	"errors"
	"fmt"
	"net"
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
// that. The links go all the same. It is CutWhereabouts in an instant.
func (r *Runtime) LoseDELs(lose bool) error { return r.onDEL("whereabouts", "exit 0", lose) }

// HoldDELs makes every DEL wait at a blocker where whereabouts' part of it would be:
// the pod's processes are gone, and its interfaces are still there. That part is
// then lost, as with LoseDELs, which ends this too.
func (r *Runtime) HoldDELs(b CNIBlocker) error {
	return r.onDEL("whereabouts", fmt.Sprintf(`here=%s.$CNI_CONTAINERID
	[ -e %[1]s ] && : >$here
	while [ -e %[1]s ]; do sleep 0.05; done
	rm -f $here
	exit 0`, b.file), true)
}

// FailDELs makes macvlan answer every DEL with an error, before whereabouts is asked
// and with the link in place, or ends that.
func (r *Runtime) FailDELs(fail bool) error {
	return r.onDEL("macvlan", `echo '{"cniVersion": "1.0.0", "code": 999, "msg": "the link is busy"}'; exit 1`, fail)
}

// onDEL makes a plugin do something else at a DEL, or ends that.
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

// CutWhereabouts takes the API server away from whereabouts alone, or ends that. A DEL
// of whereabouts 0.9.4 then takes its minute, and says that all is well; the links go
// after that.
func (r *Runtime) CutWhereabouts(cut bool) error {
	c := r.Node.cluster
	kubeconfig := c.pluginKubeconfig()
	if cut {
		kubeconfig = filepath.Join(r.dir, "nowhere")
		if err := c.credentials.writeKubeconfig(kubeconfig, "https://"+net.JoinHostPort(c.address.String(), "1"), c.credentials.pluginToken); err != nil {
			return err
		}
	}
	return os.WriteFile(r.Outside("/etc/cni/net.d/whereabouts.d/whereabouts.conf"), r.Node.flat(kubeconfig), 0o600)
}
