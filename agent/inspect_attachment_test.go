package agent_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/ip-reconcile/ip-reconcile/agent/cri"
	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

func TestInspect_CachedIDIsAttachment(t *testing.T) {
	for name, c := range map[string]struct {
		want string
		path func(n *testNode) string
	}{
		"its network is there":      {"open", func(n *testNode) string { return n.namespace("a") }},
		"its network is gone":       {"closed", func(n *testNode) string { return filepath.Join(n.netns, "a") }},
		"its network is elsewhere":  {"not known", func(*testNode) string { return "/elsewhere/a" }},
		"it names no network":       {"not known", func(*testNode) string { return "" }},
		"its network has no folder": {"not known", func(*testNode) string { return "a" }},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, critest.Containerd)
			runs := web("2b")
			runs.NetNS = n.namespace("b")
			n.setSandboxes(runs)
			n.addCache("wb", runs.ID, "net1", runs.NetNS, "10.0.0.6/24")
			file := n.addCache("wb", id("1a"), "net1", c.path(n), "10.0.0.5/24")
			since := noon.Add(-time.Hour + 900*time.Millisecond)
			if err := os.Chtimes(file, noon, since); err != nil {
				t.Fatal(err)
			}
			got := n.attachment()
			equal(t, "network", networkState(got.NetworkClosed), c.want)
			want := c.path(n)
			if !filepath.IsAbs(want) {
				want = ""
			}
			equal(t, "its path", got.NetNS, want)
			got.NetworkClosed, got.NetNS = nil, ""
			equal(t, "attachment", got, v1alpha1.Attachment{
				ID: id("1a"), Since: at(-time.Hour), Namespace: "default", Name: "web-0", UID: "uid-1",
				Addresses: []v1alpha1.Address{{IP: "10.0.0.5", IfName: "net1", Network: "wb", Range: "10.0.0.0/24"}},
			})
		})
	}
}

// A sandbox that is being set up has no whereabouts address in the caches yet, but may get one.
func TestInspect_AttachmentsOfAnyNetwork(t *testing.T) {
	n := newNode(t, critest.Containerd)
	n.addCache("kindnet", id("3c"), "eth0", "/x", "10.244.0.5/24")
	n.file(filepath.Join(n.results(), "wb-"+id("1a")+"-net1"), "{")
	n.file(filepath.Join(n.cni, "multus", id("2b")), "[]")
	var ids []string
	for _, a := range n.inspect().Attachments {
		ids = append(ids, a.ID)
	}
	equal(t, "attachments, by id", ids, []string{id("1a"), id("2b"), id("3c")})
	equal(t, "unread files", len(n.Unreadable()), 2)
}

// A sandbox is always in the list or an attachment, and neither after its end.
func TestInspect_AttachmentBecomesSandbox(t *testing.T) {
	n := newNode(t, critest.Containerd)
	sandbox := web("1a")
	file := n.addCache("wb", sandbox.ID, "net1", "/x", "10.0.0.5/24")
	equal(t, "while it is set up", n.attachment().ID, sandbox.ID)
	n.setSandboxes(sandbox)
	inspection := n.inspect()
	equal(t, "attachments when it runs", len(inspection.Attachments), 0)
	equal(t, "sandboxes when it runs", len(inspection.Sandboxes), 2)
	n.setSandboxes()
	equal(t, "after a lost DEL", n.attachment().ID, sandbox.ID)
	n.remove(file)
	inspection = n.inspect()
	equal(t, "attachments in the end", len(inspection.Attachments), 0)
	equal(t, "sandboxes in the end", len(inspection.Sandboxes), 1)
}

// hookedRuntime calls onList after each list.
type hookedRuntime struct {
	*critest.Server
	onList func()
}

func (d *hookedRuntime) ListPodSandbox(ctx context.Context,
	r *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	answer, err := d.Server.ListPodSandbox(ctx, r)
	d.onList()
	return answer, err
}

// A sandbox whose setup ends during an inspection is in the cache, because the runtime is read first.
func TestInspect_ReadsRuntimeBeforeCaches(t *testing.T) {
	n := newNode(t, critest.Containerd)
	n.setSandboxes(web("2b"))
	socket := filepath.Join(filepath.Dir(n.runtime.Socket), "during.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, &hookedRuntime{n.runtime,
		func() { n.addCache("wb", id("1a"), "net1", "/x", "10.0.0.5/24") }})
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	if n.Runtime, err = cri.Dial(socket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Runtime.Close() })
	equal(t, "attachment", n.attachment().ID, id("1a"))
}

func TestReport_ContinuesEarlierReport(t *testing.T) {
	n := newNode(t, critest.Containerd)
	sandbox, other := web("1a"), web("2b")
	sandbox.NetNS, other.NetNS = n.namespace("a"), n.namespace("b")
	n.setSandboxes(sandbox, other)
	first, err := n.Report(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	n.setSandboxes(other)
	n.remove(sandbox.NetNS)
	last, err := n.Report(t.Context(), first)
	if err != nil || len(last.Sandboxes) != 1 || goneIDs(last) != sandbox.ID {
		t.Errorf("sandboxes %v, gone %v, %v", last.Sandboxes, last.Gone, err)
	}
	n.OwnUID = "another"
	if r, err := n.Report(t.Context(), last); err == nil {
		t.Errorf("a report of an inspection that failed: %v", r)
	}
}
