// Package cri asks a container runtime which pod sandboxes it has, through its
// CRI v1 socket.
//
// FindSocket finds the socket, Dial connects to it. A Runtime lists the sandboxes (List),
// fetches what only the status of one tells (Detail) and follows the runtime's events
// (Watch).
package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ErrNotFound is returned if the runtime does not know the sandbox, or not yet: containerd and
// CRI-O answer alike for an id that is being set up (facts of containerd 2.4
// internal/cri/server/sandbox_run.go, CRI-O 1.34 server/sandbox_status.go).
var ErrNotFound = errors.New("the runtime does not know the sandbox")

// statusTimeout is the limit of a call for one status, which may wait for that
// sandbox's shim.
const statusTimeout = 2 * time.Second

// callTimeout is the limit of one call. Lists are answered from the runtime's
// memory; one that takes longer is in trouble.
const callTimeout = 10 * time.Second

// DefaultSockets are where runtimes listen: containerd, CRI-O, k3s and RKE2.
func DefaultSockets() []string {
	return []string{"/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/k3s/containerd/containerd.sock"}
}

// FindSocket returns the socket to use: the named one, else the first of DefaultSockets
// that is there. More than one is an error, since only the operator knows which
// of them runs the pods.
func FindSocket(socket string) (string, error) {
	if socket != "" {
		path := strings.TrimPrefix(socket, "unix://")
		if !filepath.IsAbs(path) {
			return "", fmt.Errorf("--cri %q: must be the absolute path of a socket", socket)
		}
		return path, nil
	}
	var found []string
	for _, path := range DefaultSockets() {
		info, err := os.Stat(path)
		if err == nil && info.Mode()&fs.ModeSocket != 0 {
			found = append(found, path)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("no container runtime's socket at %s: name it with --cri", strings.Join(DefaultSockets(), ", "))
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("several container runtimes listen here (%s): name the one that runs the pods with --cri", strings.Join(found, ", "))
}

// Runtime is a connection to a runtime's socket. It outlives restarts of the
// runtime.
type Runtime struct {
	socket string
	conn   *grpc.ClientConn
	client runtimeapi.RuntimeServiceClient
}

// Dial prepares a connection; whether anybody listens shows at the first call.
func Dial(socket string) (*Runtime, error) {
	conn, err := grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// Without a limit of its own gRPC waits up to two minutes before it tries
		// again to reach a runtime that was restarted.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
			MinConnectTimeout: 3 * time.Second,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)), // as kubelet; a list of thousands exceeds gRPC's own 4 MiB
	)
	if err != nil {
		return nil, fmt.Errorf("prepare a connection to the container runtime at %s: %w", socket, err)
	}
	return &Runtime{socket: socket, conn: conn, client: runtimeapi.NewRuntimeServiceClient(conn)}, nil
}

// Close ends the connection.
func (r *Runtime) Close() error { return r.conn.Close() }

// Sandbox is a sandbox as the runtime lists it.
type Sandbox struct {
	ID, Namespace, Name, UID string
	Attempt                  uint32
	Ready                    bool
	CreatedAt                time.Time
}

// Version names the runtime and its version.
func (r *Runtime) Version(ctx context.Context) (name, version string, err error) {
	ctx, stop := context.WithTimeout(ctx, callTimeout)
	defer stop()
	v, err := r.client.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return "", "", r.wrapError("ask the version of", err)
	}
	// As long as a report takes.
	return fmt.Sprintf("%.253s", v.GetRuntimeName()), fmt.Sprintf("%.253s", v.GetRuntimeVersion()), nil
}

// List lists all sandboxes, also those that are not ready. A sandbox that is
// being set up is not among them. An answer in which a sandbox has no id, no
// pod, a name that no pod can have or a state that the CRI does not know is an error:
// what it leaves out or means cannot be known.
func (r *Runtime) List(ctx context.Context) ([]Sandbox, error) {
	ctx, stop := context.WithTimeout(ctx, callTimeout)
	defer stop()
	answer, err := r.client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return nil, r.wrapError("list the sandboxes of", err)
	}
	all := make([]Sandbox, 0, len(answer.GetItems()))
	for _, item := range answer.GetItems() {
		m := item.GetMetadata()
		if item.GetId() == "" || m == nil {
			return nil, fmt.Errorf("list the sandboxes of the container runtime at %s: it lists one without an id or a pod", r.socket)
		}
		state := item.GetState()
		if state != runtimeapi.PodSandboxState_SANDBOX_READY && state != runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
			return nil, fmt.Errorf("list the sandboxes of the container runtime at %s: %s is in state %s, which is not known", r.socket, item.GetId(), state)
		}
		if len(item.GetId()) > 128 || max(len(m.GetNamespace()), len(m.GetName()), len(m.GetUid())) > 253 {
			const text = "list the sandboxes of the container runtime at %s: one has a longer name than a pod: %.128s"
			return nil, fmt.Errorf(text, r.socket, item.GetId())
		}
		all = append(all, Sandbox{
			ID: item.GetId(), Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUid(), Attempt: m.GetAttempt(),
			Ready: state == runtimeapi.PodSandboxState_SANDBOX_READY, CreatedAt: time.Unix(0, item.GetCreatedAt()),
		})
	}
	return all, nil
}

// NetworkMode is whose network a sandbox is on, "" where that is not known.
type NetworkMode string

const (
	PodNetwork  NetworkMode = "pod"
	HostNetwork NetworkMode = "host"
)

// Detail is what only the status of a sandbox tells.
type Detail struct {
	Network NetworkMode
	// NetworkClosed is whether the network namespace is gone, as the runtime has it; nil
	// where it does not report that (CRI-O).
	NetworkClosed *bool
	// NetNS is the path of the network namespace; "" where it is not reported.
	NetNS string
}

// Detail asks for the status of a sandbox. It returns ErrNotFound where the
// runtime does not know the id. With another error it may still return the Network: containerd
// answers the verbose status with its shim's help, and the plain one from its memory
// (1.7 pkg/cri/server/sandbox_status.go, 2.4 internal/cri/server/podsandbox/sandbox_status.go).
func (r *Runtime) Detail(ctx context.Context, id string) (Detail, error) {
	answer, err := r.status(ctx, id, true, statusTimeout)
	if status.Code(err) == codes.NotFound {
		return Detail{}, fmt.Errorf("%w %s", ErrNotFound, id)
	}
	if err != nil {
		err = r.wrapError("ask for the status of sandbox "+id+" of", err)
		plain, perr := r.status(ctx, id, false, statusTimeout/2)
		if perr != nil {
			return Detail{}, err
		}
		return Detail{Network: networkMode(plain)}, err
	}
	d := parseInfo(answer.GetInfo()["info"])
	d.Network = networkMode(answer)
	return d, nil
}

func (r *Runtime) status(ctx context.Context, id string, verbose bool, limit time.Duration) (*runtimeapi.PodSandboxStatusResponse, error) {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	return r.client.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id, Verbose: verbose})
}

func networkMode(answer *runtimeapi.PodSandboxStatusResponse) NetworkMode {
	if answer.GetStatus().GetLinux().GetNamespaces().GetOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE {
		return HostNetwork
	}
	return PodNetwork
}

// parseInfo reads the verbose info of a status. The CRI promises nothing about
// it; containerd 1.6–2.4 and CRI-O put the sandbox's OCI spec in it, containerd
// also netNamespaceClosed. What cannot be read is left out.
func parseInfo(text string) Detail {
	var info struct {
		NetNamespaceClosed *bool `json:"netNamespaceClosed"`
		RuntimeSpec        struct {
			Linux struct {
				Namespaces []struct {
					Type string `json:"type"`
					Path string `json:"path"`
				} `json:"namespaces"`
			} `json:"linux"`
		} `json:"runtimeSpec"`
	}
	if json.Unmarshal([]byte(text), &info) != nil {
		return Detail{}
	}
	d := Detail{NetworkClosed: info.NetNamespaceClosed}
	for _, n := range info.RuntimeSpec.Linux.Namespaces {
		if n.Type == "network" {
			d.NetNS = n.Path
		}
	}
	return d
}

const readEventsOf = "read the events of"

// ErrEventsNotShared is returned if each event of the runtime goes to one reader only, and
// so would be missing where kubelet reads them too.
var ErrEventsNotShared = errors.New("the runtime is not known to send its events to every reader")

// Watch calls changed for each event of a sandbox or container until the stream
// ends, which it always does with an error. Events are hints: containerd drops
// them when nobody reads fast enough, and CRI-O sends none unless it is configured to. It
// returns ErrNotBroadcast, and takes no event, where it would take them from
// others.
func (r *Runtime) Watch(ctx context.Context, changed func()) error {
	name, version, err := r.Version(ctx)
	if err != nil {
		return err
	}
	if !sharesEvents(name, version) {
		return fmt.Errorf("%w: %s %s", ErrEventsNotShared, name, version)
	}
	stream, err := r.client.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	for err == nil {
		if _, err = stream.Recv(); err == nil {
			changed()
		}
	}
	return r.wrapError(readEventsOf, err)
}

// sharesEvents reports whether every reader gets every event: of CRI-O always (server/
// server.go, broadcastEvents), of containerd since 2.0 (internal/eventq); 1.7 has one
// channel for all readers (pkg/cri/server/container_events.go).
func sharesEvents(name, version string) bool {
	switch name {
	case "cri-o":
		return true
	case "containerd":
		major, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
		n, err := strconv.Atoi(major)
		return err == nil && n >= 2
	}
	return false
}

func (r *Runtime) wrapError(what string, err error) error {
	hint := ""
	switch code := status.Code(err); {
	case code == codes.Unimplemented && what != readEventsOf:
		hint = ": it does not speak CRI v1 (containerd before 1.6, or its CRI plugin is off)"
	case code == codes.Unavailable && strings.Contains(err.Error(), "permission denied"):
		hint = ": run as root, and where SELinux is enforced as spc_t"
	}
	return fmt.Errorf("%s the container runtime at %s: %w%s", what, r.socket, err, hint)
}
