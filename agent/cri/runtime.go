// Package cri reads pod sandboxes from a container runtime through its CRI v1 socket.
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

	"github.com/ip-reconcile/ip-reconcile/agent/hostdir"
)

// ErrNotFound means that the runtime does not know the sandbox, or does not know it yet, while it is set up (containerd
// 2.4 internal/cri/server/sandbox_run.go, CRI-O 1.34 server/sandbox_status.go).
var ErrNotFound = errors.New("the runtime does not know the sandbox")

// statusTimeout limits one status call, which may wait for the shim of its sandbox.
const statusTimeout = 2 * time.Second

// callTimeout limits any other call. Runtimes answer a list from memory.
const callTimeout = 10 * time.Second

// DefaultSockets returns the usual sockets of containerd, CRI-O, and k3s and RKE2.
func DefaultSockets() []string {
	return []string{"/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/k3s/containerd/containerd.sock"}
}

// FindSocket returns the named socket, or the only one of DefaultSockets that exists. With several sockets only the
// operator knows which runtime runs the pods, so that is an error.
func FindSocket(socket string) (string, error) {
	if socket != "" {
		path := strings.TrimPrefix(socket, "unix://")
		if !filepath.IsAbs(path) {
			return "", fmt.Errorf("--cri %q must be the absolute path of a socket", socket)
		}
		return path, nil
	}
	return onlySocket(DefaultSockets())
}

// onlySocket returns the only one of the paths that is a socket. A path that cannot be looked at may be one.
func onlySocket(paths []string) (string, error) {
	var sockets []string
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return "", fmt.Errorf("look for the socket of the container runtime: %w: run as root, or name it with --cri", err)
		case info.Mode()&fs.ModeSocket != 0:
			sockets = append(sockets, path)
		}
	}
	switch len(sockets) {
	case 0:
		return "", fmt.Errorf("no socket of a container runtime at %s: name it with --cri", strings.Join(paths, ", "))
	case 1:
		return sockets[0], nil
	}
	return "", fmt.Errorf("several container runtimes (%s): name the one that runs the pods with --cri",
		strings.Join(sockets, ", "))
}

// Runtime is a connection to a runtime's socket. It survives restarts of the runtime.
type Runtime struct {
	socket string
	conn   *grpc.ClientConn
	client runtimeapi.RuntimeServiceClient
}

// Dial prepares a connection. The first call shows whether the runtime listens.
func Dial(socket string) (*Runtime, error) {
	conn, err := grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		// gRPC by itself waits up to two minutes before it reconnects to a restarted runtime.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
				MaxDelay: 3 * time.Second},
			MinConnectTimeout: 3 * time.Second,
		}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)), // as in kubelet; gRPC's default of 4 MiB is too small
	)
	if err != nil {
		return nil, fmt.Errorf("prepare a connection to the container runtime at %s: %w", socket, err)
	}
	return &Runtime{socket: socket, conn: conn, client: runtimeapi.NewRuntimeServiceClient(conn)}, nil
}

// Close closes the connection.
func (r *Runtime) Close() error { return r.conn.Close() }

// Sandbox is a sandbox in the runtime's list.
type Sandbox struct {
	ID, Namespace, Name, UID string
	Attempt                  uint32
	Ready                    bool
	CreatedAt                time.Time
	// Texts is how many bytes its labels and annotations have, of which its status has copies.
	Texts int
}

// Version returns the name and version of the runtime.
func (r *Runtime) Version(ctx context.Context) (name, version string, err error) {
	ctx, stop := context.WithTimeout(ctx, callTimeout)
	defer stop()
	v, err := r.client.Version(ctx, &runtimeapi.VersionRequest{})
	if err != nil {
		return "", "", r.wrapError("get the version of", err)
	}
	// The longest that a report accepts.
	return fmt.Sprintf("%.253s", v.GetRuntimeName()), fmt.Sprintf("%.253s", v.GetRuntimeVersion()), nil
}

// List lists all sandboxes, also those that are not ready, but not those that are being set up. A sandbox without
// an id or pod, with a name that is too long, or in an unknown state makes the whole answer an error.
func (r *Runtime) List(ctx context.Context) ([]Sandbox, error) {
	ctx, stop := context.WithTimeout(ctx, callTimeout)
	defer stop()
	answer, err := r.client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return nil, r.wrapError(listSandboxesOf, err)
	}
	all := make([]Sandbox, 0, len(answer.GetItems()))
	for _, item := range answer.GetItems() {
		m := item.GetMetadata()
		if item.GetId() == "" || m == nil {
			return nil, r.wrapError(listSandboxesOf, errors.New("a sandbox has no id or pod"))
		}
		state := item.GetState()
		if state != runtimeapi.PodSandboxState_SANDBOX_READY && state != runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
			return nil, r.wrapError(listSandboxesOf, fmt.Errorf("%s is in the unknown state %s", item.GetId(), state))
		}
		if len(item.GetId()) > 128 || max(len(m.GetNamespace()), len(m.GetName()), len(m.GetUid())) > 253 {
			return nil, r.wrapError(listSandboxesOf, fmt.Errorf("a name of %.128s is too long", item.GetId()))
		}
		all = append(all, Sandbox{
			ID: item.GetId(), Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUid(), Attempt: m.GetAttempt(),
			Ready: state == runtimeapi.PodSandboxState_SANDBOX_READY, CreatedAt: time.Unix(0, item.GetCreatedAt()),
			Texts: size(item.GetLabels()) + size(item.GetAnnotations()),
		})
	}
	return all, nil
}

func size(texts map[string]string) (n int) {
	for key, value := range texts {
		n += len(key) + len(value)
	}
	return n
}

// NetworkMode is the kind of network of a sandbox, "" if unknown.
type NetworkMode string

const (
	PodNetwork  NetworkMode = "pod"
	HostNetwork NetworkMode = "host"
)

// Detail is the part of a sandbox's state that only its status contains.
type Detail struct {
	Network NetworkMode
	// NetworkClosed says whether the network namespace is gone; nil if the runtime does not say (CRI-O).
	NetworkClosed *bool
	// NetNS is the path of the network namespace, "" if unknown.
	NetNS string
}

// Detail reads the status of a sandbox. It returns ErrNotFound if the runtime does not know the id. With another
// error it may still return the Network: containerd needs the shim only for the verbose status (1.7
// pkg/cri/server/sandbox_status.go, 2.4 internal/cri/server/podsandbox/sandbox_status.go).
func (r *Runtime) Detail(ctx context.Context, id string) (Detail, error) {
	answer, err := r.status(ctx, id, true, statusTimeout)
	if status.Code(err) == codes.NotFound {
		return Detail{}, fmt.Errorf("%w %s", ErrNotFound, id)
	}
	if err != nil {
		err = r.wrapError("get the status of sandbox "+id+" of", err)
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

func (r *Runtime) status(
	ctx context.Context, id string, verbose bool, limit time.Duration,
) (*runtimeapi.PodSandboxStatusResponse, error) {
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

// parseInfo parses the verbose info of a status, of which the CRI promises nothing. containerd 1.6–2.4 and CRI-O
// include the OCI spec, containerd also netNamespaceClosed. What cannot be parsed is ignored.
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

const listSandboxesOf, readEventsOf = "list the sandboxes of", "read the events of"

// ErrEventsNotShared means that the runtime may send each event to only one reader, so that kubelet would miss events.
var ErrEventsNotShared = errors.New("the runtime may not send its events to every reader")

// Watch calls changed for each event of a sandbox or container until the stream ends, always with an error. Events
// are hints: containerd drops them for slow readers, and CRI-O sends none by default. It returns
// ErrEventsNotShared, without reading any event, if it would take events from other readers.
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

// sharesEvents reports whether every reader receives every event, as of CRI-O (server/server.go, broadcastEvents) and
// containerd since 2.0 (internal/eventq). 1.7 has one channel for all (pkg/cri/server/container_events.go).
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
	if status.Code(err) == codes.Unavailable {
		err = hostdir.Explain(r.socket, err)
	}
	switch code := status.Code(err); {
	case code == codes.Unimplemented && what != readEventsOf:
		hint = ": it does not support CRI v1 (containerd before 1.6, or its CRI plugin is off)"
	case code == codes.Unavailable && strings.Contains(err.Error(), "permission denied"):
		hint = ": run as root, and as spc_t if SELinux is enforced"
	}
	return fmt.Errorf("%s the container runtime at %s: %w%s", what, r.socket, err, hint)
}
