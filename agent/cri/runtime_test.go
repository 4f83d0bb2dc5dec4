package cri_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ip-reconcile/ip-reconcile/agent/cri"
	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 5, time.UTC)

var styles = map[string]critest.Style{
	"containerd": critest.Containerd,
	"CRI-O":      critest.CRIO,
}

func dial(t *testing.T, socket string) *cri.Runtime {
	t.Helper()
	r, err := cri.Dial(socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// serve serves on a socket until stop is called.
func serve(t *testing.T, socket string, server runtimeapi.RuntimeServiceServer) (stop func()) {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(s, server)
	go s.Serve(listener)
	t.Cleanup(s.Stop)
	return s.Stop
}

// odd is a runtime with invalid answers.
type odd struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	list   []*runtimeapi.PodSandbox
	status *runtimeapi.PodSandboxStatusResponse
	events int
	suffix string        // of its version
	hangs  chan struct{} // closed when a call that is never answered arrives
}

func (o *odd) ListPodSandbox(ctx context.Context,
	_ *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	if o.hangs != nil {
		close(o.hangs)
		<-ctx.Done()
	}
	return &runtimeapi.ListPodSandboxResponse{Items: o.list}, nil
}

func (o *odd) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{RuntimeName: "cri-o", RuntimeVersion: "1.34.0" + o.suffix}, nil
}

func (o *odd) PodSandboxStatus(context.Context,
	*runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	return o.status, nil
}

func (o *odd) GetContainerEvents(_ *runtimeapi.GetEventsRequest,
	stream grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	for range o.events {
		if err := stream.Send(&runtimeapi.ContainerEventResponse{}); err != nil {
			return err
		}
	}
	return nil // like a runtime that shuts down properly
}

func dialOdd(t *testing.T, o *odd) *cri.Runtime {
	t.Helper()
	socket := filepath.Join(shortDir(t), "odd.sock")
	serve(t, socket, o)
	return dial(t, socket)
}

// shortDir returns a folder for sockets, whose paths are limited to 107 characters.
func shortDir(t *testing.T) string { return filepath.Dir(critest.Start(t, critest.Containerd).Socket) }

func TestList(t *testing.T) {
	for name, style := range styles {
		t.Run(name, func(t *testing.T) {
			s := critest.Start(t, style)
			r := dial(t, s.Socket)
			if list, err := r.List(t.Context()); err != nil || len(list) != 0 {
				t.Errorf("without a sandbox: %v, %v", list, err)
			}
			s.Set(
				critest.Sandbox{ID: "b", Namespace: "default", Name: "web-0", UID: "uid-1", Attempt: 3, CreatedAt: noon},
				critest.Sandbox{ID: "a", Namespace: "db", Name: "db-0", UID: "uid-2", NotReady: true,
					CreatedAt: noon.Add(time.Second)},
			)
			list, err := r.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i := range list {
				if list[i].Texts < 100 { // the labels alone have more
					t.Errorf("%d bytes of labels and annotations", list[i].Texts)
				}
				list[i].CreatedAt, list[i].Texts = list[i].CreatedAt.UTC(), 0
			}
			want := []cri.Sandbox{
				{ID: "b", Namespace: "default", Name: "web-0", UID: "uid-1", Attempt: 3, Ready: true, CreatedAt: noon},
				{ID: "a", Namespace: "db", Name: "db-0", UID: "uid-2", CreatedAt: noon.Add(time.Second)},
			}
			if !reflect.DeepEqual(list, want) {
				t.Errorf("got  %v\nwant %v", list, want)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	for style, want := range map[critest.Style]string{critest.Containerd: "containerd 2.4.2",
		critest.CRIO: "cri-o 1.34.0"} {
		name, version, err := dial(t, critest.Start(t, style).Socket).Version(t.Context())
		if got := name + " " + version; err != nil || got != want {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}
	}
}

func TestVersion_Long(t *testing.T) {
	_, version, err := dialOdd(t, &odd{suffix: strings.Repeat("x", 300)}).Version(t.Context())
	if err != nil || len(version) != 253 {
		t.Errorf("%d bytes, %v", len(version), err)
	}
}

// The list of a busy node exceeds gRPC's default limit of 4 MiB.
func TestList_Thousands(t *testing.T) {
	s := critest.Start(t, critest.Containerd)
	var all []critest.Sandbox
	for i := range 14000 {
		all = append(all, critest.Sandbox{ID: fmt.Sprintf("%064d", i), Namespace: "default", Name: fmt.Sprintf("web-%d", i),
			UID: fmt.Sprintf("uid-%d", i), CreatedAt: noon})
	}
	s.Set(all...)
	if list, err := dial(t, s.Socket).List(t.Context()); err != nil || len(list) != len(all) {
		t.Errorf("%d of %d sandboxes: %v", len(list), len(all), err)
	}
}

func TestDetail(t *testing.T) {
	yes, no := true, false
	const path = "/run/netns/cni-1"
	for _, c := range []struct {
		name       string
		sandbox    critest.Sandbox
		containerd cri.Detail
		crio       cri.Detail
	}{
		{"a sandbox that runs", critest.Sandbox{NetNS: path}, cri.Detail{Network: cri.PodNetwork, NetworkClosed: &no,
			NetNS: path}, cri.Detail{Network: cri.PodNetwork, NetNS: path}},
		{"one that is not ready and whose network is open", critest.Sandbox{NotReady: true, NetNS: path},
			cri.Detail{Network: cri.PodNetwork, NetworkClosed: &no, NetNS: path}, cri.Detail{Network: cri.PodNetwork,
				NetNS: path}},
		{"one whose network is closed", critest.Sandbox{NotReady: true, NetNS: path, Closed: true},
			cri.Detail{Network: cri.PodNetwork, NetworkClosed: &yes, NetNS: path}, cri.Detail{Network: cri.PodNetwork,
				NetNS: path}},
		{"one without a path", critest.Sandbox{},
			cri.Detail{Network: cri.PodNetwork, NetworkClosed: &no}, cri.Detail{Network: cri.PodNetwork}},
		{"one on the host network whose verbose status is an error", critest.Sandbox{HostNetwork: true,
			HasBrokenStatus: true}, cri.Detail{Network: cri.HostNetwork}, cri.Detail{Network: cri.HostNetwork}},
		{"one of which no status is answered", critest.Sandbox{HasBrokenStatus: true, HasNoStatus: true}, cri.Detail{},
			cri.Detail{}},
		{"one on the host network", critest.Sandbox{HostNetwork: true},
			cri.Detail{Network: cri.HostNetwork, NetworkClosed: &no}, cri.Detail{Network: cri.HostNetwork}},
	} {
		for name, style := range styles {
			t.Run(c.name+", "+name, func(t *testing.T) {
				s := critest.Start(t, style)
				c.sandbox.ID = "a"
				s.Set(critest.Sandbox{ID: "other", HostNetwork: !c.sandbox.HostNetwork, NetNS: "/other"}, c.sandbox)
				want := c.containerd
				if style == critest.CRIO {
					want = c.crio
				}
				got, err := dial(t, s.Socket).Detail(t.Context(), "a")
				if (err != nil) != c.sandbox.HasBrokenStatus || !reflect.DeepEqual(got, want) {
					t.Errorf("got %+v (closed: %v), %v; want %+v", got, word(got.NetworkClosed), err, want)
				}
			})
		}
	}
}

func word(b *bool) string {
	if b == nil {
		return "unknown"
	}
	return fmt.Sprint(*b)
}

// The CRI promises nothing about the verbose info. Unreadable info proves nothing, especially not a closed network.
func TestDetail_UnreadableInfo(t *testing.T) {
	for name, info := range map[string]map[string]string{
		"no info":     nil,
		"another key": {"other": `{"netNamespaceClosed":true}`},
		"empty":       {"info": ""},
		"cut off": {"info": `{"netNamespaceClosed":true,` +
			`"runtimeSpec":{"linux":{"namespaces":[{"type":"network","path":"/run/netns/a"}`},
		"no object":         {"info": `"netNamespaceClosed"`},
		"null":              {"info": `null`},
		"closed is no bool": {"info": `{"netNamespaceClosed":"true"}`},
		"closed is null":    {"info": `{"netNamespaceClosed":null}`},
		"namespaces are no list": {"info": `{"netNamespaceClosed":true,` +
			`"runtimeSpec":{"linux":{"namespaces":{"type":"network","path":"/a"}}}}`},
		"only namespaces of another type": {"info": `{"runtimeSpec":{"linux":{"namespaces":[{"type":"ipc",` +
			`"path":"/proc/1/ns/ipc"}]}}}`},
		"a network namespace without path":  {"info": `{"runtimeSpec":{"linux":{"namespaces":[{"type":"network"}]}}}`},
		"a runtimeSpec that is null":        {"info": `{"runtimeSpec":null}`},
		"a runtimeSpec for another machine": {"info": `{"runtimeSpec":{"windows":{}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := dialOdd(t, &odd{status: &runtimeapi.PodSandboxStatusResponse{Info: info}})
			if got, err := r.Detail(t.Context(), "a"); err != nil || !reflect.DeepEqual(got,
				cri.Detail{Network: cri.PodNetwork}) {
				t.Errorf("got %+v (closed: %v), %v", got, word(got.NetworkClosed), err)
			}
		})
	}
}

func TestDetail_NotFound(t *testing.T) {
	for name, style := range styles {
		t.Run(name, func(t *testing.T) {
			s := critest.Start(t, style)
			r := dial(t, s.Socket)
			s.Set(critest.Sandbox{ID: "going", IsBeingRemoved: true})
			for _, id := range []string{"never", "going"} {
				if _, err := r.Detail(t.Context(), id); !errors.Is(err, cri.ErrNotFound) || !strings.Contains(err.Error(), id) {
					t.Errorf("%s: %v", id, err)
				}
			}
			s.Fail("PodSandboxStatus", status.Error(codes.Unknown, "sandbox not found"))
			if _, err := r.Detail(t.Context(), "never"); err == nil || errors.Is(err, cri.ErrNotFound) {
				t.Errorf("another error is taken for ErrNotFound: %v", err)
			}
		})
	}
}

func TestRuntime_FailedCalls(t *testing.T) {
	for name, style := range styles {
		t.Run(name, func(t *testing.T) {
			s := critest.Start(t, style)
			r := dial(t, s.Socket)
			s.Set(critest.Sandbox{ID: "a"})
			for method, call := range map[string]func() error{
				"Version":          func() error { _, _, err := r.Version(t.Context()); return err },
				"ListPodSandbox":   func() error { _, err := r.List(t.Context()); return err },
				"PodSandboxStatus": func() error { _, err := r.Detail(t.Context(), "a"); return err },
			} {
				for _, code := range []codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.Unknown, codes.ResourceExhausted,
					codes.Unimplemented} {
					s.Fail(method, status.Error(code, "server is not initialized yet"))
					err := call()
					if err == nil || !strings.Contains(err.Error(), s.Socket) || !strings.Contains(err.Error(),
						"not initialized yet") {
						t.Errorf("%s, %s: %v", method, code, err)
					}
					if hinted := err != nil && strings.Contains(err.Error(),
						"does not support CRI v1"); hinted != (code == codes.Unimplemented) {
						t.Errorf("%s, %s: %v", method, code, err)
					}
				}
				s.Fail(method, nil)
				if err := call(); err != nil {
					t.Errorf("%s: still fails: %v", method, err)
				}
			}
		})
	}
}

func TestList_InvalidSandbox(t *testing.T) {
	good := &runtimeapi.PodSandbox{Id: "a", Metadata: &runtimeapi.PodSandboxMetadata{Name: "web-0"}}
	for name, bad := range map[string]*runtimeapi.PodSandbox{
		"an unknown state": {Id: "b", Metadata: good.Metadata, State: 7},
		"no id":            {Metadata: good.Metadata},
		"no pod":           {Id: "b"},
		// A SandboxReport accepts none of these.
		"an id of 129 bytes":       {Id: strings.Repeat("b", 129), Metadata: good.Metadata},
		"a name of 254 bytes":      {Id: "b", Metadata: &runtimeapi.PodSandboxMetadata{Name: strings.Repeat("x", 254)}},
		"a namespace of 254 bytes": {Id: "b", Metadata: &runtimeapi.PodSandboxMetadata{Namespace: strings.Repeat("x", 254)}},
		"a UID of 254 bytes":       {Id: "b", Metadata: &runtimeapi.PodSandboxMetadata{Uid: strings.Repeat("x", 254)}},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := dialOdd(t, &odd{list: []*runtimeapi.PodSandbox{good, bad}}).List(t.Context())
			if err == nil || list != nil {
				t.Errorf("got %v, %v", list, err)
			}
		})
	}
}

func TestList_EndsWithContext(t *testing.T) {
	o := &odd{hangs: make(chan struct{})}
	r := dialOdd(t, o)
	ctx, stop := context.WithCancel(t.Context())
	go func() { <-o.hangs; stop() }()
	if _, err := r.List(ctx); err == nil {
		t.Error("no error")
	}
}

func TestList_NoServer(t *testing.T) {
	socket := filepath.Join(shortDir(t), "nobody.sock")
	if _, err := dial(t, socket).List(t.Context()); err == nil || !strings.Contains(err.Error(), socket) {
		t.Errorf("got %v", err)
	}
}

func TestRuntime_Restart(t *testing.T) {
	for name, style := range styles {
		t.Run(name, func(t *testing.T) {
			s := critest.Start(t, style)
			s.Set(critest.Sandbox{ID: "a", CreatedAt: noon})
			socket := filepath.Join(filepath.Dir(s.Socket), "again.sock")
			r := dial(t, socket)
			for range 2 {
				stop := serve(t, socket, s)
				deadline := time.Now().Add(8 * time.Second)
				for {
					list, err := r.List(t.Context())
					if err == nil && len(list) == 1 {
						break
					}
					if err == nil || time.Now().After(deadline) {
						t.Fatalf("got %v, %v", list, err)
					}
				}
				stop()
				if list, err := r.List(t.Context()); err == nil {
					t.Fatalf("a runtime that is not there answers %v", list)
				}
			}
		})
	}
}
