// Package critest is a fake CRI server that answers like containerd or CRI-O. It covers states that real runtimes
// cannot be made to show, and CRI-O where it cannot be installed.
package critest

import (
	"context"
	"encoding/json"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Style is the runtime that the server imitates.
type Style int

const (
	// Containerd is 1.6–2.4: it sends events, and the verbose info has netNamespaceClosed.
	Containerd Style = iota
	// CRIO is 1.34 by default: it sends no events, and has no netNamespaceClosed.
	CRIO
)

// Sandbox is a sandbox of the server.
type Sandbox struct {
	ID, Namespace, Name, UID string
	Attempt                  uint32
	NotReady                 bool
	HostNetwork              bool
	NetNS                    string
	// Closed is containerd's netNamespaceClosed.
	Closed    bool
	CreatedAt time.Time
	// Secret is in the environment and the annotations in the verbose info.
	Secret string
	// Annotations are in the list, the status and, with Secret, in the verbose info.
	Annotations map[string]string
	// IsBeingRemoved means that it is listed without a status.
	IsBeingRemoved bool
	// HasBrokenStatus means that its verbose status is an error.
	HasBrokenStatus bool
	// HasNoStatus means that its plain status is an error, too.
	HasNoStatus bool
}

// Server is a fake CRI server on its own socket.
type Server struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	// Socket is the path of the socket.
	Socket string

	style   Style
	version string
	mu      sync.Mutex
	all     []Sandbox
	fail    map[string]error
	calls   map[string]int
	watch   []chan struct{}
}

// Start starts a server that stops at the end of the test.
func Start(t testing.TB, style Style) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "cri") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{style: style, version: "2.4.2", Socket: filepath.Join(dir, "cri.sock"), fail: map[string]error{},
		calls: map[string]int{}}
	stop := s.listen(t)
	t.Cleanup(func() { stop(); os.RemoveAll(dir) })
	return s
}

func (s *Server) listen(t testing.TB) (stop func()) {
	t.Helper()
	listener, err := net.Listen("unix", s.Socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, s)
	go server.Serve(listener)
	return server.Stop
}

// Set replaces the sandboxes and sends an event.
func (s *Server) Set(all ...Sandbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.Clone(all)
	for _, w := range s.watch {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

// Fail makes a method (Version, ListPodSandbox, PodSandboxStatus) return an error; nil ends that.
func (s *Server) Fail(method string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail[method] = err
}

// Upgrade changes the version of containerd, initially 2.4.2.
func (s *Server) Upgrade(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = version
}

// Calls returns the number of calls of a method.
func (s *Server) Calls(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[method]
}

// recordCall counts a call and returns its error. The lock must be held.
func (s *Server) recordCall(method string) error {
	s.calls[method]++
	return s.fail[method]
}

// Version returns the name and version of the runtime.
func (s *Server) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.recordCall("Version"); err != nil {
		return nil, err
	}
	if s.style == CRIO {
		return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "cri-o", RuntimeVersion: "1.34.0",
			RuntimeApiVersion: "v1"}, nil
	}
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "containerd", RuntimeVersion: s.version,
		RuntimeApiVersion: "v1"}, nil
}

// ListPodSandbox lists the sandboxes.
func (s *Server) ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse,
	error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.recordCall("ListPodSandbox"); err != nil {
		return nil, err
	}
	answer := &runtimeapi.ListPodSandboxResponse{}
	for _, b := range s.all {
		answer.Items = append(answer.Items, &runtimeapi.PodSandbox{
			Id: b.ID, Metadata: b.metadata(), State: b.state(), CreatedAt: b.CreatedAt.UnixNano(),
			Labels: map[string]string{
				"io.kubernetes.pod.namespace": b.Namespace, "io.kubernetes.pod.name": b.Name, "io.kubernetes.pod.uid": b.UID,
				"app": "app-of-" + b.Name, "pod-template-hash": "5d4f8c7b9d",
			},
			Annotations: b.annotations("kubernetes.io/config.source", "api"),
		})
	}
	return answer, nil
}

// PodSandboxStatus returns the status of a sandbox.
func (s *Server) PodSandboxStatus(_ context.Context,
	r *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	b, err := s.sandbox(r.PodSandboxId)
	switch {
	case err != nil:
		return nil, err
	case !r.Verbose && !b.HasNoStatus:
	case b.HasBrokenStatus:
		return nil, status.Errorf(codes.Unknown, "failed to get the task of sandbox %s", b.ID)
	}
	network := runtimeapi.NamespaceMode_POD
	if b.HostNetwork {
		network = runtimeapi.NamespaceMode_NODE
	}
	answer := &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{
		Id: b.ID, Metadata: b.metadata(), State: b.state(), CreatedAt: b.CreatedAt.UnixNano(),
		Annotations: b.Annotations,
		Linux: &runtimeapi.LinuxPodSandboxStatus{
			Namespaces: &runtimeapi.Namespace{Options: &runtimeapi.NamespaceOption{Network: network}},
		},
	}}
	if r.Verbose {
		info, err := json.Marshal(s.info(b))
		if err != nil {
			return nil, err
		}
		answer.Info = map[string]string{"info": string(info)}
	}
	return answer, nil
}

func (s *Server) sandbox(id string) (Sandbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.recordCall("PodSandboxStatus"); err != nil {
		return Sandbox{}, err
	}
	at := slices.IndexFunc(s.all, func(b Sandbox) bool { return b.ID == id && !b.IsBeingRemoved })
	if at < 0 {
		return Sandbox{}, status.Errorf(codes.NotFound, "sandbox %s not found", id)
	}
	return s.all[at], nil
}

// info returns the verbose info of a sandbox.
func (s *Server) info(b Sandbox) map[string]any {
	namespaces := []map[string]string{{"type": "pid"}, {"type": "ipc"}, {"type": "mount"}}
	if !b.HostNetwork {
		network := map[string]string{"type": "network"}
		if b.NetNS != "" {
			network["path"] = b.NetNS
		}
		namespaces = append(namespaces, network)
	}
	info := map[string]any{"pid": 4711, "config": map[string]any{"annotations": b.annotations("token", b.Secret)},
		"runtimeSpec": map[string]any{
			"ociVersion": "1.2.0", "process": map[string]any{"env": []string{"TOKEN=" +
				b.Secret}}, "linux": map[string]any{"namespaces": namespaces}}}
	if s.style == Containerd {
		info["netNamespaceClosed"] = b.Closed
	}
	return info
}

// GetContainerEvents sends an event for each Set.
func (s *Server) GetContainerEvents(_ *runtimeapi.GetEventsRequest,
	stream grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	s.mu.Lock()
	s.calls["GetContainerEvents"]++
	s.mu.Unlock()
	if s.style == CRIO {
		return status.Error(codes.Unimplemented, "event streaming is disabled")
	}
	changed := make(chan struct{}, 1)
	s.mu.Lock()
	s.watch = append(s.watch, changed)
	s.mu.Unlock()
	for {
		select {
		case <-stream.Context().Done():
			return nil
		case <-changed:
			if err := stream.Send(&runtimeapi.ContainerEventResponse{}); err != nil {
				return err
			}
		}
	}
}

func (b *Sandbox) metadata() *runtimeapi.PodSandboxMetadata {
	return &runtimeapi.PodSandboxMetadata{Name: b.Name, Namespace: b.Namespace, Uid: b.UID, Attempt: b.Attempt}
}

func (b *Sandbox) annotations(key, value string) map[string]string {
	all := map[string]string{key: value}
	maps.Copy(all, b.Annotations)
	return all
}

func (b *Sandbox) state() runtimeapi.PodSandboxState {
	if b.NotReady {
		return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	}
	return runtimeapi.PodSandboxState_SANDBOX_READY
}
