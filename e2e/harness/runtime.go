package harness

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Paths on a node, as its own processes have them. They are the usual ones: every node has its own /run, /var/lib and
// /etc/cni. Runtime.Outside has the test's paths.
const (
	Socket    = "/run/containerd/containerd.sock"
	StateDir  = "/run/containerd"
	RootDir   = "/var/lib/containerd"
	NetNSDir  = "/run/netns"          // containerd keeps network namespaces here (by its name /var/run/netns)
	MultusDir = "/var/lib/cni/multus" // Multus' cniDir
)

// A Runtime is the real containerd of a Node, with its shims, runc and CNI plugins. They run in mount and PID
// namespaces of the node. Its network is the machine's, unless it is a Worker's. All of it ends with the test process.
type Runtime struct {
	Node *Node

	flavour Flavour
	dir     string
	bin     string // containerd's programs
	nodens  string // path of the program nodens
	conn    *grpc.ClientConn
	cri     cri.RuntimeServiceClient
	images  cri.ImageServiceClient
	plug    func(pid string) error // plugs cables into the network namespace of a Worker
	base    string                 // path of the base spec of a Worker's containers

	containerd Daemon

	mu       sync.Mutex // for what a fault test stops and starts
	init     *process   // the node's process 1
	lost     int        // how often the state was lost
	archives []string
}

// NewRuntime starts containerd on a node until the test ends.
func NewRuntime(t testing.TB, node *Node, flavour Flavour) *Runtime {
	t.Helper()
	if why := flavour.Unsupported(); why != "" {
		t.Fatal(why)
	}
	r := newRuntime(node, flavour)
	t.Cleanup(func() {
		if err := r.close(); err != nil {
			t.Errorf("ending containerd of node %s: %v", node.Name, err)
		}
	})
	if err := r.prepare(nil); err != nil {
		t.Fatalf("preparing containerd of node %s: %v", node.Name, err)
	}
	if err := r.Boot(t.Context()); err != nil {
		t.Fatalf("starting containerd of node %s: %v", node.Name, err)
	}
	return r
}

func newRuntime(node *Node, flavour Flavour) *Runtime {
	return &Runtime{Node: node, flavour: flavour, dir: filepath.Join(node.dir, "runtime")}
}

// prepare creates the node's files on disk. local is the plugin of local addresses, if it is not macvlan.
func (r *Runtime) prepare(local map[string]any) error {
	programs, err := build(r.flavour.programs)
	if err != nil {
		return err
	}
	tools, err := build(own)
	if err != nil {
		return err
	}
	more, err := build(multus)
	if err != nil {
		return err
	}
	if r.plug == nil {
		if err := r.Node.cluster.addWire(); err != nil {
			return err
		}
	}
	r.bin, r.nodens = filepath.Join(programs, r.flavour.bin), filepath.Join(tools, "nodens")
	for _, dir := range []string{"etc", "etc-work", "var-lib/cni", "var-lib/containerd", "var-log", "plugins", "logs"} {
		if err := os.MkdirAll(filepath.Join(r.dir, dir), 0o755); err != nil {
			return err
		}
	}
	plugins := filepath.Join(r.dir, "plugins")
	for plugin, dir := range map[string]string{
		"multus": more, "host-local": more, "bridge": more, "cniblocker": tools,
		"whereabouts": r.Node.cluster.bin, "macvlan": r.Node.cluster.bin, "loopback": r.Node.cluster.bin,
	} {
		if err := os.Symlink(filepath.Join(dir, plugin), filepath.Join(plugins, plugin)); err != nil {
			return err
		}
	}
	for path, content := range map[string][]byte{
		"containerd.toml":                              r.flavour.toml(programs, plugins, r.base),
		"etc/cni/net.d/00-e2e.conflist":                r.conflist(local, plugins),
		"etc/cni/net.d/whereabouts.d/whereabouts.conf": r.Node.flat(r.Node.cluster.pluginKubeconfig()),
	} {
		path = filepath.Join(r.dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
	}
	pause := filepath.Join(r.dir, "pause.tar")
	if err := writeImage(pause, pauseImage, filepath.Join(tools, "pause")); err != nil {
		return err
	}
	r.archives = []string{pause}
	r.conn, err = dialCRI(func() string { return r.Outside(Socket) })
	r.cri, r.images = cri.NewRuntimeServiceClient(r.conn), cri.NewImageServiceClient(r.conn)
	return err
}

// Boot gives the node its process 1 with an empty /run, and starts containerd.
func (r *Runtime) Boot(ctx context.Context) error {
	init, err := startCommand(r.Node.dir, "nodens", &exec.Cmd{
		Path: r.nodens, Args: []string{r.nodens, "init", r.dir, runsDir()}, Dir: r.dir,
		SysProcAttr: ownNamespaces(r.plug != nil),
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.init = init
	r.mu.Unlock()
	err = poll(ctx, func(context.Context) (bool, error) {
		_, err := os.Stat(r.Outside("/run/node-ready"))
		return err == nil, init.ended()
	})
	if err != nil {
		return fmt.Errorf("waiting for the namespaces of the node: %w", err)
	}
	if r.plug != nil {
		if err := r.plug(r.pid()); err != nil {
			return fmt.Errorf("plugging in the node: %w", err)
		}
	}
	return r.Start(ctx)
}

// Start starts containerd, on its data on disk, and waits until the CRI answers and the network is ready.
func (r *Runtime) Start(ctx context.Context) error {
	cmd := r.Command(context.Background(), filepath.Join(r.bin, "containerd"), "--config",
		filepath.Join(r.dir, "containerd.toml"))
	cmd.Dir = r.dir
	p, err := r.containerd.start(r.Node.dir, "containerd", cmd)
	if err != nil {
		return err
	}
	r.mu.Lock()
	archives := r.archives
	r.mu.Unlock()
	var last error
	err = poll(ctx, func(ctx context.Context) (bool, error) {
		if err := p.ended(); err != nil {
			return false, err
		}
		var status *cri.StatusResponse
		status, last = r.cri.Status(ctx, &cri.StatusRequest{})
		// There are other conditions, such as one against cgroup v1.
		for _, c := range status.GetStatus().GetConditions() {
			if !c.Status && (c.Type == cri.RuntimeReady || c.Type == cri.NetworkReady) {
				last = fmt.Errorf("not ready: %s", c)
			}
		}
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%s does not answer: %w (last answer: %v); its log ends with:\n%s", r.flavour.Name, err,
			last, tail(p.log)) //nolint:errorlint // last is nil where nothing answered
	}
	for _, archive := range archives {
		if err := r.loadImage(ctx, archive); err != nil {
			return err
		}
	}
	return nil
}

// Outside is the test process's path for a path on the node. While the node is off it does not exist.
func (r *Runtime) Outside(path string) string {
	return filepath.Join("/proc", r.pid(), "root", path)
}

// pid is the node's process 1. While the node is off it is one that never exists: the machine may have given the number
// to another process, even one of another node.
func (r *Runtime) pid() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.init.runs() {
		return "0"
	}
	return strconv.Itoa(r.init.cmd.Process.Pid)
}

// Command is exec.CommandContext for a program on the node, such as an agent. The node's disk is the machine's except
// /run, /var/lib, /var/log and /etc. Signals except SIGSTOP reach the program; SIGKILL, and the context's end, a moment
// later.
func (r *Runtime) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, r.nodens, append([]string{"run", r.pid(), name}, args...)...)
	cmd.Env = append(os.Environ(),
		"NODENAME="+r.Node.Name, // whereabouts takes it before /etc/hostname
		"PATH="+r.bin+":"+os.Getenv("PATH"),
	)
	cmd.SysProcAttr = dieWithParent()
	return cmd
}

// tools is the folder of this project's own programs for nodes and pods.
func (r *Runtime) tools() string { return filepath.Dir(r.nodens) }

// poll asks until the answer is yes. On an idle machine everything on a node takes seconds at most.
func poll(ctx context.Context, ask func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause = min(pause*3/2, 200*time.Millisecond) {
		if ok, err := ask(ctx); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// multusThick is the thick Multus: the plugin asks a daemon on the node.
var multusThick = kit{module: "parts", parts: []part{
	{name: "multus-daemon", pkg: "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus-daemon"},
	{name: "multus-shim", pkg: "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus-shim"},
}}

// UseThickMultus replaces thin Multus by its daemon for pods that start afterwards. It returns the path of the daemon's
// log. The daemon ends with the node.
func (r *Runtime) UseThickMultus(ctx context.Context) (log string, err error) {
	programs, err := build(multusThick)
	if err != nil {
		return "", err
	}
	plugins := filepath.Join(r.dir, "plugins")
	if err := os.Symlink(filepath.Join(programs, "multus-shim"), filepath.Join(plugins, "multus-shim")); err != nil {
		return "", err
	}
	// Where a pod has its token.
	account := r.Outside("/run/secrets/kubernetes.io/serviceaccount")
	if err := os.MkdirAll(account, 0o700); err != nil {
		return "", err
	}
	c := r.Node.cluster
	server, err := url.Parse(c.server())
	if err != nil {
		return "", err
	}
	host, port, err := net.SplitHostPort(server.Host)
	if err != nil {
		return "", err
	}
	config, networks := filepath.Join(r.dir, "daemon-config.json"), filepath.Join(r.dir, "thick")
	for path, content := range map[string][]byte{
		filepath.Join(account, "token"):          []byte(c.credentials.adminToken),
		filepath.Join(account, "ca.crt"):         c.credentials.certPEM,
		filepath.Join(networks, "10-local.conf"): asJSON(r.localNetwork()),
		config: asJSON(map[string]any{
			"cniVersion": "1.0.0", "logLevel": "verbose", "logToStderr": true, "socketDir": "/run/multus/",
			"binDir": plugins, "multusConfigFile": "auto", "multusAutoconfigDir": networks,
			"cniConfigDir": "/etc/cni/net.d",
		}),
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return "", err
		}
	}
	cmd := r.Command(context.Background(), filepath.Join(programs, "multus-daemon"), "-config", config)
	cmd.Env = append(cmd.Env, "KUBERNETES_SERVICE_HOST="+host, "KUBERNETES_SERVICE_PORT="+port,
		"MULTUS_NODE_NAME="+r.Node.Name)
	p, err := startCommand(r.Node.dir, "multus-daemon", cmd)
	if err != nil {
		return "", err
	}
	err = poll(ctx, func(context.Context) (bool, error) {
		_, err := os.Stat(r.Outside("/etc/cni/net.d/00-multus.conf")) // it listens before it writes this
		return err == nil, p.ended()
	})
	if err != nil {
		return "", fmt.Errorf("waiting for the daemon of Multus: %w; its log ends with:\n%s", err, tail(p.log))
	}
	if err := os.Remove(r.Outside("/etc/cni/net.d/00-e2e.conflist")); err != nil {
		return "", err
	}
	if err := r.Stop(); err != nil { // containerd reads the configuration when it starts
		return "", err
	}
	return p.log, r.Start(ctx)
}
