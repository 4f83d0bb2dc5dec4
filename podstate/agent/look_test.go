package agent_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/podstate/agent"
	"github.com/ip-reconcile/ip-reconcile/podstate/cri"
	"github.com/ip-reconcile/ip-reconcile/podstate/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/podstate/v1alpha1"
)

var styles = map[string]critest.Style{
	"spoken as containerd does": critest.Containerd,
	"spoken as CRI-O does":      critest.CRIO,
}

func TestALookHasWhatTheRuntimeListsWithTheAddressesOfTheCaches(t *testing.T) {
	for name, style := range styles {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, style)
			path := n.namespace("cni-1")
			box := web("2b")
			box.NetNS, box.Attempt, box.CreatedAt = path, 2, noon.Add(700*time.Millisecond)
			stopped := critest.Sandbox{ID: id("1a"), Namespace: "db", Name: "db-0", UID: "uid-2", NotReady: true, CreatedAt: noon, NetNS: path, Closed: false}
			n.runs(box, stopped)
			n.cached("wb", box.ID, "net1", path, "10.0.0.5/24")
			began := time.Now()
			look := n.look()

			if look.At.Before(began) || look.At.After(time.Now()) {
				t.Errorf("made at %s", look.At)
			}
			want := map[critest.Style]v1alpha1.Runtime{
				critest.Containerd: {Name: "containerd", Version: "2.4.2"}, critest.CRIO: {Name: "cri-o", Version: "1.34.0"}}[style]
			equal(t, "runtime", look.Runtime, want)
			equal(t, "boot id", look.BootID, "")
			open := false
			ownWord := &open
			if style == critest.CRIO {
				ownWord = nil
			}
			equal(t, "sandboxes, by id", look.Sandboxes, []agent.Listed{
				{Sandbox: v1alpha1.Sandbox{ID: stopped.ID, Namespace: "db", Name: "db-0", UID: "uid-2", State: v1alpha1.SandboxNotReady,
					NetworkClosed: &open, NetNS: path, CreatedAt: at(0)}},
				{Sandbox: v1alpha1.Sandbox{ID: box.ID, Namespace: "default", Name: "web-0", UID: "uid-1", Attempt: 2, State: v1alpha1.SandboxReady,
					NetworkClosed: &open, NetNS: path, CreatedAt: at(0),
					Addresses: []v1alpha1.Address{{IP: "10.0.0.5", IfName: "net1", Network: "wb", Range: "10.0.0.0/24"}}}},
				{Sandbox: v1alpha1.Sandbox{ID: n.own.ID, Namespace: "kube-system", Name: "agent", UID: "own-uid", State: v1alpha1.SandboxReady,
					NetworkClosed: ownWord, CreatedAt: at(0)}, Irrelevant: true},
			})
			equal(t, "attachments", len(look.Attachments), 0)
		})
	}
}

func TestOnlyHostNetworkAndSurelyNoWhereaboutsAreIrrelevant(t *testing.T) {
	for name, c := range map[string]struct {
		is   bool
		with func(n *aNode, s *critest.Sandbox)
	}{
		"on the host network":              {true, func(_ *aNode, s *critest.Sandbox) { s.HostNetwork = true }},
		"a cache that has another network": {true, func(n *aNode, s *critest.Sandbox) { n.cached("kindnet", s.ID, "eth0", "/run/netns/a", "10.244.0.5/24") }},
		"a cache that has whereabouts":     {false, func(n *aNode, s *critest.Sandbox) { n.cached("wb", s.ID, "net1", "/run/netns/a", "10.0.0.5/24") }},
		"whereabouts without an address":   {false, func(n *aNode, s *critest.Sandbox) { n.cached("wb", s.ID, "net1", "/run/netns/a") }},
		"no cache":                         {false, func(*aNode, *critest.Sandbox) {}},
		"a cache file that cannot be read": {false, func(n *aNode, s *critest.Sandbox) { n.file(filepath.Join(n.results(), "kindnet-"+s.ID+"-eth0"), "{") }},
		"one of two files that cannot be read": {false, func(n *aNode, s *critest.Sandbox) {
			n.cached("kindnet", s.ID, "eth0", "/run/netns/a", "10.244.0.5/24")
			n.file(filepath.Join(n.results(), "other-"+s.ID+"-net1"), "{")
		}},
		"Multus' list that names whereabouts": {false, func(n *aNode, s *critest.Sandbox) {
			n.cached("kindnet", s.ID, "eth0", "/run/netns/a", "10.244.0.5/24")
			n.file(filepath.Join(n.cni, "multus", s.ID), `[{"Bytes":"eyJpcGFtIjp7InR5cGUiOiJ3aGVyZWFib3V0cyJ9fQ=="}]`)
		}},
		"not ready from the beginning, with a cache that has another network": {false, func(n *aNode, s *critest.Sandbox) {
			s.NotReady = true
			n.cached("kindnet", s.ID, "eth0", "/run/netns/a", "10.244.0.5/24")
		}},
	} {
		for said, style := range styles {
			t.Run(name+", "+said, func(t *testing.T) {
				n := newNode(t, style)
				box := web("1a")
				c.with(n, &box)
				n.runs(box)
				equal(t, "irrelevant", n.sandbox(box.ID).Irrelevant, c.is)
			})
		}
	}
}

// DEL empties the caches: what they said while the sandbox ran is remembered. An
// agent that starts after it cannot know, and reports the sandbox.
func TestWhatTheCachesSaidBeforeDELIsRememberedForAsLongAsTheAgentRuns(t *testing.T) {
	n := newNode(t, critest.Containerd)
	box := web("1a")
	file := n.cached("kindnet", box.ID, "eth0", "/run/netns/a", "10.244.0.5/24")
	n.runs(box)
	equal(t, "irrelevant while it runs", n.sandbox(box.ID).Irrelevant, true)
	n.remove(file)
	box.NotReady = true
	n.runs(box)
	equal(t, "irrelevant after DEL", n.sandbox(box.ID).Irrelevant, true)
	n.runtime.Fail("ListPodSandbox", status.Error(codes.Unavailable, "restarting"))
	_ = n.fails()
	n.runtime.Fail("ListPodSandbox", nil)
	equal(t, "irrelevant after a look that failed", n.sandbox(box.ID).Irrelevant, true)
	n.Eyes = n.newEyes()
	equal(t, "irrelevant to an agent that starts now", n.sandbox(box.ID).Irrelevant, false)
}

// An interface may be plugged into a pod that runs.
func TestASandboxThatIsGivenAWhereaboutsAddressLaterIsRelevantFromThenOn(t *testing.T) {
	n := newNode(t, critest.Containerd)
	box := web("1a")
	n.cached("kindnet", box.ID, "eth0", "/run/netns/a", "10.244.0.5/24")
	n.runs(box)
	equal(t, "irrelevant at first", n.sandbox(box.ID).Irrelevant, true)
	n.cached("wb", box.ID, "net1", "/run/netns/a", "10.0.0.5/24")
	s := n.sandbox(box.ID)
	equal(t, "irrelevant then", s.Irrelevant, false)
	equal(t, "addresses", len(s.Addresses), 1)
	box.NotReady = true
	n.runs(box)
	equal(t, "irrelevant when it has stopped", n.sandbox(box.ID).Irrelevant, false)
}

func TestALookWithoutTheAgentsOwnSandboxIsNone(t *testing.T) {
	stopped := func(s critest.Sandbox) critest.Sandbox { s.NotReady = true; return s }
	replaced := func(s critest.Sandbox) critest.Sandbox { s.UID = "uid-of-its-predecessor"; return s }
	n := newNode(t, critest.Containerd)
	for name, all := range map[string][]critest.Sandbox{
		"nothing is listed":                {},
		"others are listed":                {web("1a")},
		"it is not ready":                  {web("1a"), stopped(n.own)},
		"a pod of its name with other UID": {web("1a"), replaced(n.own)},
	} {
		t.Run(name, func(t *testing.T) {
			n.runtime.Set(all...)
			if err := n.fails(); !errors.Is(err, agent.ErrNotOwn) {
				t.Errorf("got %v", err)
			}
		})
	}
	n.runs()
	n.look()
	again := stopped(n.own)
	again.ID = id("98")
	n.runs(again)
	n.look()
	n.OwnUID = ""
	n.runtime.Set(web("1a"))
	equal(t, "sandboxes seen from outside a pod", len(n.look().Sandboxes), 1)
}

func TestNothingIsSeenWhenOneThingCannotBeSeen(t *testing.T) {
	for name, breaks := range map[string]func(n *aNode){
		"the version": func(n *aNode) { n.runtime.Fail("Version", status.Error(codes.Unavailable, "x")) },
		"the list":    func(n *aNode) { n.runtime.Fail("ListPodSandbox", status.Error(codes.Unavailable, "x")) },
		"a status": func(n *aNode) {
			n.runtime.Fail("PodSandboxStatus", status.Error(codes.Unavailable, "x"))
			n.runs(web("2b"))
		},
		"the folder of results":       func(n *aNode) { n.remove(n.results()) },
		"Multus' folder that was":     func(n *aNode) { n.remove(filepath.Join(n.cni, "multus")) },
		"a folder that is a file now": func(n *aNode) { n.remove(n.results()); n.file(n.results(), "") },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, critest.Containerd)
			n.mkdir(filepath.Join(n.cni, "multus", "results"))
			n.runs(web("1a"))
			n.look()
			breaks(n)
			_ = n.fails()
			_ = n.fails()
		})
	}
}

func TestALookIsMadeAnewWhenASandboxGoesMeanwhile(t *testing.T) {
	n := newNode(t, critest.Containerd)
	going := web("1a")
	going.Unknown, going.NotReady = true, true
	n.runs(going)
	b := n.sandbox(going.ID)
	equal(t, "lists for a sandbox that stays half gone", n.runtime.Calls("ListPodSandbox"), 3)
	equal(t, "its network", told(b.NetworkClosed), "not known")
	n.runs()
	equal(t, "sandboxes when it is gone", len(n.look().Sandboxes), 1)
	equal(t, "lists for a good look", n.runtime.Calls("ListPodSandbox"), 4)
}

// A shim that hangs, or a record that is broken, is one sandbox's trouble.
func TestASandboxWhoseStatusIsNotToBeHadCostsOnlyItself(t *testing.T) {
	n := newNode(t, critest.Containerd)
	clock := noon
	n.Now = func() time.Time { return clock }
	well, ill := web("1a"), web("2b")
	well.NetNS, ill.NetNS = n.namespace("a"), n.namespace("b")
	n.runs(well, ill)
	n.look()
	well.NotReady, well.Closed, ill.NotReady, ill.Closed, ill.Broken = true, true, true, true, true
	n.runs(well, ill)
	equal(t, "the other's network", told(n.sandbox(well.ID).NetworkClosed), "closed")
	b := n.sandbox(ill.ID)
	equal(t, "its own", told(b.NetworkClosed), "open") // by its path
	equal(t, "relevant", b.Irrelevant, false)
	equal(t, "said", len(n.Unread()), 1)
	calls := n.runtime.Calls("PodSandboxStatus")
	for range 4 {
		clock = clock.Add(time.Second)
		n.look()
	}
	equal(t, "it is asked again at once", n.runtime.Calls("PodSandboxStatus"), calls)
	ill.Broken = false
	n.runs(well, ill)
	clock = clock.Add(10 * time.Second)
	equal(t, "when it answers again", told(n.sandbox(ill.ID).NetworkClosed), "closed")
	equal(t, "said then", len(n.Unread()), 0)
}

func TestWithoutAFolderOfResultsTheNodeIsSeenOnlyWhileNoPodHasANetwork(t *testing.T) {
	n := newNode(t, critest.Containerd)
	n.remove(n.results())
	equal(t, "sandboxes on the host network", len(n.look().Sandboxes), 1)
	n.runs(web("1a"))
	if err := n.fails(); !strings.Contains(err.Error(), "--cni-results") {
		t.Errorf("got %v", err)
	}
}

func TestTimesThatTheAPIRefusesAreMoved(t *testing.T) {
	n := newNode(t, critest.Containerd)
	box := web("1a")
	box.CreatedAt = time.Date(1754, 8, 30, 0, 0, 0, 0, time.UTC)
	n.runs(box)
	file := n.cached("wb", id("2b"), "net1", "/x", "10.0.0.5/24")
	before := time.Unix(-1000, 0)
	if err := os.Chtimes(file, before, before); err != nil {
		t.Fatal(err)
	}
	equal(t, "created", n.sandbox(box.ID).CreatedAt, metav1.Time{})
	equal(t, "since", n.attachment().Since.UTC(), time.Unix(0, 0).UTC())
}

func TestDetailsAreAskedOncePerSandboxAndStateAndAgainWhileTheRuntimeSaysOpen(t *testing.T) {
	for name, c := range map[string]struct {
		style critest.Style
		calls []int // of each look, beginning with the first
	}{
		"spoken as containerd does": {critest.Containerd, []int{2, 0, 1, 1, 1, 0, 1, 0}},
		"spoken as CRI-O does":      {critest.CRIO, []int{2, 0, 1, 0, 0, 0, 1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, c.style)
			box := web("1a")
			for i, change := range []func(){
				func() {},
				func() {}, // nothing changed
				func() { box.NotReady = true },
				func() {},                    // its network is still open
				func() { box.Closed = true }, // without a change of state
				func() {},
				func() { box.ID = id("2b") }, // another sandbox
				func() {},
			} {
				change()
				n.runs(box)
				before := n.runtime.Calls("PodSandboxStatus")
				s := n.sandbox(box.ID)
				equal(t, "calls for details at look "+string(rune('1'+i)), n.runtime.Calls("PodSandboxStatus")-before, c.calls[i])
				want := "not known"
				if c.style == critest.Containerd {
					want = "open"
					if box.Closed {
						want = "closed"
					}
				}
				equal(t, "network at look "+string(rune('1'+i)), told(s.NetworkClosed), want)
			}
		})
	}
}

// A path that is missing proves something only in a folder that is really the
// node's: a sandbox that runs has its namespace there, at this very look.
func TestANetworkIsClosedByItsPathOnlyInTheNodesOwnFolder(t *testing.T) {
	for name, c := range map[string]struct {
		want string
		with func(n *aNode, gone *critest.Sandbox, runs *critest.Sandbox)
	}{
		"its path is there": {"open", func(n *aNode, gone, runs *critest.Sandbox) {
			gone.NetNS, runs.NetNS = n.namespace("a"), n.namespace("b")
		}},
		"its path is there, and nothing runs": {"open", func(n *aNode, gone, runs *critest.Sandbox) {
			gone.NetNS = n.namespace("a")
		}},
		"its path is missing beside one that runs": {"closed", func(n *aNode, gone, runs *critest.Sandbox) {
			gone.NetNS, runs.NetNS = filepath.Join(n.netns, "a"), n.namespace("b")
		}},
		"its path is missing in an empty folder": {"not known", func(n *aNode, gone, runs *critest.Sandbox) {
			gone.NetNS, runs.NetNS = filepath.Join(n.netns, "a"), filepath.Join(n.netns, "b")
		}},
		"its path is missing in a folder that has only unknown files": {"not known", func(n *aNode, gone, runs *critest.Sandbox) {
			n.namespace("c")
			gone.NetNS, runs.NetNS = filepath.Join(n.netns, "a"), filepath.Join(n.netns, "b")
		}},
		"the one that is there is not ready": {"not known", func(n *aNode, gone, runs *critest.Sandbox) {
			gone.NetNS, runs.NetNS = filepath.Join(n.netns, "a"), n.namespace("b")
			runs.NotReady = true
		}},
		"the one that runs has its in another folder": {"not known", func(n *aNode, gone, runs *critest.Sandbox) {
			other := n.TempDir()
			n.NetNSDirs = append(n.NetNSDirs, other)
			gone.NetNS, runs.NetNS = filepath.Join(n.netns, "a"), n.file(filepath.Join(other, "b"), "")
		}},
		"the folder is missing": {"not known", func(n *aNode, gone, runs *critest.Sandbox) {
			gone.NetNS, runs.NetNS = filepath.Join(n.netns, "a"), n.namespace("b")
			n.remove(n.netns)
		}},
		"the folder is none of the node's": {"not known", func(n *aNode, gone, runs *critest.Sandbox) {
			other := n.TempDir()
			gone.NetNS, runs.NetNS = filepath.Join(other, "a"), n.file(filepath.Join(other, "b"), "")
		}},
		"the path has none of its own (the process')": {"not known", func(n *aNode, gone, runs *critest.Sandbox) {
			gone.NetNS, runs.NetNS = "/proc/4711/ns/net", n.namespace("b")
		}},
		"no path": {"not known", func(n *aNode, gone, runs *critest.Sandbox) { runs.NetNS = n.namespace("b") }},
		"the folder is named by an alias": {"closed", func(n *aNode, gone, runs *critest.Sandbox) {
			alias := filepath.Join(n.TempDir(), "netns")
			if err := os.Symlink(n.netns, alias); err != nil {
				n.Fatal(err)
			}
			n.NetNSDirs = append(n.NetNSDirs, alias+"/")
			gone.NetNS, runs.NetNS = filepath.Join(alias, "a"), n.namespace("b")
		}},
		"by an alias, and there": {"open", func(n *aNode, gone, runs *critest.Sandbox) {
			alias := filepath.Join(n.TempDir(), "netns")
			if err := os.Symlink(n.netns, alias); err != nil {
				n.Fatal(err)
			}
			n.NetNSDirs = append(n.NetNSDirs, alias)
			n.namespace("a")
			gone.NetNS, runs.NetNS = filepath.Join(alias, "a"), n.namespace("b")
		}},
		"the path is the CNI cache's, and missing": {"closed", func(n *aNode, gone, runs *critest.Sandbox) {
			n.cached("wb", gone.ID, "net1", filepath.Join(n.netns, "a"), "10.0.0.5/24")
			runs.NetNS = n.namespace("b")
		}},
		"the runtime's path goes before the CNI cache's": {"open", func(n *aNode, gone, runs *critest.Sandbox) {
			n.cached("wb", gone.ID, "net1", filepath.Join(n.netns, "a"), "10.0.0.5/24")
			gone.NetNS, runs.NetNS = n.namespace("c"), n.namespace("b")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, critest.CRIO)
			gone, runs := web("1a"), web("2b")
			gone.NotReady = true
			c.with(n, &gone, &runs)
			n.runs(gone, runs)
			equal(t, "network", told(n.sandbox(gone.ID).NetworkClosed), c.want)
		})
	}
}

// The path is looked at in every look, and the folder with it.
func TestANetworkThatClosesOrAFolderThatGoesIsSeenAtTheNextLook(t *testing.T) {
	n := newNode(t, critest.CRIO)
	gone, runs := web("1a"), web("2b")
	gone.NotReady, gone.NetNS, runs.NetNS = true, n.namespace("a"), n.namespace("b")
	n.runs(gone, runs)
	equal(t, "at first", told(n.sandbox(gone.ID).NetworkClosed), "open")
	n.remove(gone.NetNS)
	equal(t, "closed", told(n.sandbox(gone.ID).NetworkClosed), "closed")
	n.remove(runs.NetNS)
	equal(t, "with the folder's content", told(n.sandbox(gone.ID).NetworkClosed), "not known")
}

func TestTheRuntimesOwnWordGoesBeforeThePath(t *testing.T) {
	n := newNode(t, critest.Containerd)
	closed, open, runs := web("1a"), web("2b"), web("3c")
	runs.NetNS = n.namespace("r")
	closed.NotReady, closed.Closed, closed.NetNS = true, true, n.namespace("c")
	open.NotReady, open.NetNS = true, filepath.Join(n.netns, "missing")
	n.runs(closed, open, runs)
	equal(t, "closed by its word, with a path that is there", told(n.sandbox(closed.ID).NetworkClosed), "closed")
	equal(t, "open by its word, with a path that is missing", told(n.sandbox(open.ID).NetworkClosed), "open")
}

func TestAnIDInACacheThatIsNotListedIsAnAttachment(t *testing.T) {
	for name, c := range map[string]struct {
		want string
		path func(n *aNode) string
	}{
		"its network is there":      {"open", func(n *aNode) string { return n.namespace("a") }},
		"its network is gone":       {"closed", func(n *aNode) string { return filepath.Join(n.netns, "a") }},
		"its network is elsewhere":  {"not known", func(*aNode) string { return "/elsewhere/a" }},
		"it names no network":       {"not known", func(*aNode) string { return "" }},
		"its network has no folder": {"not known", func(*aNode) string { return "a" }},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, critest.Containerd)
			runs := web("2b")
			runs.NetNS = n.namespace("b")
			n.runs(runs)
			n.cached("wb", runs.ID, "net1", runs.NetNS, "10.0.0.6/24")
			file := n.cached("wb", id("1a"), "net1", c.path(n), "10.0.0.5/24")
			since := noon.Add(-time.Hour + 900*time.Millisecond)
			if err := os.Chtimes(file, noon, since); err != nil {
				t.Fatal(err)
			}
			got := n.attachment()
			equal(t, "network", told(got.NetworkClosed), c.want)
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

// Of an attachment the caches may say that it has no whereabouts address: it is
// being set up, and that may come.
func TestAttachmentsCountWhateverTheirCacheSays(t *testing.T) {
	n := newNode(t, critest.Containerd)
	n.cached("kindnet", id("3c"), "eth0", "/x", "10.244.0.5/24")
	n.file(filepath.Join(n.results(), "wb-"+id("1a")+"-net1"), "{")
	n.file(filepath.Join(n.cni, "multus", id("2b")), "[]")
	var ids []string
	for _, a := range n.look().Attachments {
		ids = append(ids, a.ID)
	}
	equal(t, "attachments, by id", ids, []string{id("1a"), id("2b"), id("3c")})
	equal(t, "unread files", len(n.Unread()), 2)
}

// One that is listed while its setup ends is in the list or an attachment, and
// one that is deleted is neither in the end.
func TestAnAttachmentBecomesASandboxAndGoes(t *testing.T) {
	n := newNode(t, critest.Containerd)
	box := web("1a")
	file := n.cached("wb", box.ID, "net1", "/x", "10.0.0.5/24")
	equal(t, "while it is set up", n.attachment().ID, box.ID)
	n.runs(box)
	look := n.look()
	equal(t, "attachments when it runs", len(look.Attachments), 0)
	equal(t, "sandboxes when it runs", len(look.Sandboxes), 2)
	n.runs()
	equal(t, "after a lost DEL", n.attachment().ID, box.ID)
	n.remove(file)
	look = n.look()
	equal(t, "attachments in the end", len(look.Attachments), 0)
	equal(t, "sandboxes in the end", len(look.Sandboxes), 1)
}

// during is a runtime on which something happens while it is asked for its list.
type during struct {
	*critest.Server
	happens func()
}

func (d *during) ListPodSandbox(ctx context.Context, r *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	answer, err := d.Server.ListPodSandbox(ctx, r)
	d.happens()
	return answer, err
}

// A sandbox whose setup ends during a look is in the cache then, and not in
// neither: the runtime is asked first.
func TestASandboxThatIsSetUpDuringALookIsSeenInTheCache(t *testing.T) {
	n := newNode(t, critest.Containerd)
	n.runs(web("2b"))
	socket := filepath.Join(filepath.Dir(n.runtime.Socket), "during.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, &during{n.runtime, func() { n.cached("wb", id("1a"), "net1", "/x", "10.0.0.5/24") }})
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	if n.Runtime, err = cri.Dial(socket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Runtime.Close() })
	equal(t, "attachment", n.attachment().ID, id("1a"))
}

func TestEyesMakeAReportThatGoesOnFromTheOneBefore(t *testing.T) {
	n := newNode(t, critest.Containerd)
	box, other := web("1a"), web("2b")
	box.NetNS, other.NetNS = n.namespace("a"), n.namespace("b")
	n.runs(box, other)
	first, err := n.Report(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "sandboxes", len(first.Sandboxes), 2)
	first.ObservedAt = at(0)
	again, err := n.Report(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	if again == first || !again.ObservedAt.After(noon) {
		t.Errorf("nothing changed, and it was observed at %s", again.ObservedAt)
	}
	equal(t, "the one before", first.ObservedAt, at(0))
	n.runs(other)
	n.remove(box.NetNS)
	last, err := n.Report(t.Context(), again)
	if err != nil {
		t.Fatal(err)
	}
	if len(last.Sandboxes) != 1 || len(last.Gone) != 1 || last.Gone[0].ID != box.ID {
		t.Errorf("sandboxes %v, gone %v", last.Sandboxes, last.Gone)
	}
	n.runtime.Fail("ListPodSandbox", status.Error(codes.Unavailable, "x"))
	if r, err := n.Report(t.Context(), last); err == nil {
		t.Errorf("a report of a look that failed: %v", r)
	}
}
