package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

var styles = map[string]critest.Style{
	"containerd": critest.Containerd,
	"CRI-O":      critest.CRIO,
}

func TestInspect_SandboxesAndAddresses(t *testing.T) {
	for name, style := range styles {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, style)
			path := n.namespace("cni-1")
			sandbox := web("2b")
			sandbox.NetNS, sandbox.Attempt, sandbox.CreatedAt = path, 2, noon.Add(700*time.Millisecond)
			stopped := critest.Sandbox{ID: id("1a"), Namespace: "db", Name: "db-0", UID: "uid-2", NotReady: true,
				CreatedAt: noon, NetNS: path, Closed: false}
			n.setSandboxes(sandbox, stopped)
			n.addCache("wb", sandbox.ID, "net1", path, "10.0.0.5/24")
			began := time.Now()
			inspection := n.inspect()

			if inspection.At.Before(began) || inspection.At.After(time.Now()) {
				t.Errorf("made at %s", inspection.At)
			}
			want := map[critest.Style]v1alpha1.Runtime{
				critest.Containerd: {Name: "containerd", Version: "2.4.2"}, critest.CRIO: {Name: "cri-o", Version: "1.34.0"}}[style]
			equal(t, "runtime", inspection.Runtime, want)
			equal(t, "boot id", inspection.BootID, "")
			open := false
			ownWord := &open
			if style == critest.CRIO {
				ownWord = nil
			}
			equal(t, "sandboxes, by id", inspection.Sandboxes, []agent.ListedSandbox{
				{Sandbox: v1alpha1.Sandbox{ID: stopped.ID, Namespace: "db", Name: "db-0", UID: "uid-2",
					State:         v1alpha1.SandboxNotReady,
					NetworkClosed: &open, NetNS: path, CreatedAt: at(0), AddressesUnread: true}},
				{Sandbox: v1alpha1.Sandbox{ID: sandbox.ID, Namespace: "default", Name: "web-0", UID: "uid-1", Attempt: 2,
					State: v1alpha1.SandboxReady, NetworkClosed: &open, NetNS: path, CreatedAt: at(0),
					Addresses: []v1alpha1.Address{{IP: "10.0.0.5", IfName: "net1", Network: "wb", Range: "10.0.0.0/24"}}}},
				{Sandbox: v1alpha1.Sandbox{ID: n.own.ID, Namespace: "kube-system", Name: "agent", UID: "own-uid",
					State: v1alpha1.SandboxReady, NetworkClosed: ownWord, CreatedAt: at(0)}, IsIrrelevant: true},
			})
			equal(t, "attachments", len(inspection.Attachments), 0)
		})
	}
}

func TestInspect_IrrelevantSandboxes(t *testing.T) {
	for name, c := range map[string]struct {
		is   bool
		with func(n *testNode, s *critest.Sandbox)
	}{
		"on the host network": {true, func(_ *testNode, s *critest.Sandbox) { s.HostNetwork = true }},
		"a cache that has another network": {true, func(n *testNode, s *critest.Sandbox) {
			n.addCache("kindnet", s.ID, "eth0", "/run/netns/a", "10.244.0.5/24")
		}},
		"a cache that has whereabouts": {false, func(n *testNode, s *critest.Sandbox) {
			n.addCache("wb", s.ID, "net1", "/run/netns/a", "10.0.0.5/24")
		}},
		"no cache": {false, func(*testNode, *critest.Sandbox) {}},
		"not ready from the beginning, with a cache that has another network": {false, func(n *testNode, s *critest.Sandbox) {
			s.NotReady = true
			n.addCache("kindnet", s.ID, "eth0", "/run/netns/a", "10.244.0.5/24")
		}},
	} {
		for said, style := range styles {
			t.Run(name+", "+said, func(t *testing.T) {
				n := newNode(t, style)
				sandbox := web("1a")
				c.with(n, &sandbox)
				n.setSandboxes(sandbox)
				equal(t, "irrelevant", n.sandbox(sandbox.ID).IsIrrelevant, c.is)
			})
		}
	}
}

// DEL empties the caches, so their content is remembered. An agent that starts later cannot know it, and reports
// the sandbox.
func TestInspect_RemembersCachesBeforeDEL(t *testing.T) {
	n := newNode(t, critest.Containerd)
	sandbox := web("1a")
	file := n.addCache("kindnet", sandbox.ID, "eth0", "/run/netns/a", "10.244.0.5/24")
	n.setSandboxes(sandbox)
	equal(t, "irrelevant while it runs", n.sandbox(sandbox.ID).IsIrrelevant, true)
	n.remove(file)
	sandbox.NotReady = true
	n.setSandboxes(sandbox)
	equal(t, "irrelevant after DEL", n.sandbox(sandbox.ID).IsIrrelevant, true)
	n.runtime.Fail("ListPodSandbox", status.Error(codes.Unavailable, "restarting"))
	_ = n.inspectError()
	n.runtime.Fail("ListPodSandbox", nil)
	equal(t, "irrelevant after an inspection that failed", n.sandbox(sandbox.ID).IsIrrelevant, true)
	n.NodeInspector = n.newInspector()
	equal(t, "irrelevant to an agent that starts now", n.sandbox(sandbox.ID).IsIrrelevant, false)
}

// An interface may be added to a running pod.
func TestInspect_HotplugMakesRelevant(t *testing.T) {
	n := newNode(t, critest.Containerd)
	sandbox := web("1a")
	n.addCache("kindnet", sandbox.ID, "eth0", "/run/netns/a", "10.244.0.5/24")
	n.setSandboxes(sandbox)
	equal(t, "irrelevant at first", n.sandbox(sandbox.ID).IsIrrelevant, true)
	n.addCache("wb", sandbox.ID, "net1", "/run/netns/a", "10.0.0.5/24")
	s := n.sandbox(sandbox.ID)
	equal(t, "irrelevant then", s.IsIrrelevant, false)
	equal(t, "addresses", len(s.Addresses), 1)
	sandbox.NotReady = true
	n.setSandboxes(sandbox)
	equal(t, "irrelevant when it has stopped", n.sandbox(sandbox.ID).IsIrrelevant, false)
}

func TestInspect_OwnSandboxMissing(t *testing.T) {
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
			if err := n.inspectError(); !errors.Is(err, agent.ErrOwnSandboxMissing) {
				t.Errorf("got %v", err)
			}
		})
	}
	n.setSandboxes()
	n.inspect()
	again := stopped(n.own)
	again.ID = id("98")
	n.setSandboxes(again)
	n.inspect()
	n.OwnUID = ""
	n.addCache("wb", id("1a"), "net1", "/x", "10.0.0.5/24")
	n.runtime.Set(web("1a"))
	equal(t, "sandboxes from outside a pod", len(n.inspect().Sandboxes), 1)
}

func TestInspect_FailsWithAnySource(t *testing.T) {
	for name, breaks := range map[string]func(n *testNode){
		"the version": func(n *testNode) { n.runtime.Fail("Version", status.Error(codes.Unavailable, "x")) },
		"the list": func(n *testNode) {
			n.runtime.Fail("ListPodSandbox", status.Error(codes.Unavailable, "x"))
		},
		"the folder of results":       func(n *testNode) { n.remove(n.results()) },
		"Multus' folder that was":     func(n *testNode) { n.remove(filepath.Join(n.cni, "multus")) },
		"a folder that is a file now": func(n *testNode) { n.remove(n.results()); n.file(n.results(), "") },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, critest.Containerd)
			n.mkdir(filepath.Join(n.cni, "multus", "results"))
			n.setSandboxes(web("1a"))
			n.inspect()
			breaks(n)
			_ = n.inspectError()
			_ = n.inspectError()
		})
	}
}

// Here neither the agent's own sandbox nor a running pod reveals that an answer is incomplete.
func TestInspect_FailureIsNotEmpty(t *testing.T) {
	n := newNode(t, critest.Containerd)
	n.OwnUID = ""
	n.setSandboxes(web("1a"))
	n.inspect()
	n.runtime.Fail("ListPodSandbox", status.Error(codes.Unavailable, "x"))
	_ = n.inspectError()

	n = newNode(t, critest.Containerd)
	stopped := web("1a")
	stopped.NotReady = true
	n.setSandboxes(stopped)
	n.inspect()
	n.remove(n.results())
	n.file(n.results(), "")
	_ = n.inspectError()
}

func TestInspect_RetriesAfterRemoval(t *testing.T) {
	n := newNode(t, critest.Containerd)
	going := web("1a")
	going.IsBeingRemoved, going.NotReady = true, true
	n.setSandboxes(going)
	b := n.sandbox(going.ID)
	equal(t, "lists for a sandbox without a status", n.runtime.Calls("ListPodSandbox"), 3)
	equal(t, "its network", networkState(b.NetworkClosed), "not known")
	n.setSandboxes()
	equal(t, "sandboxes when it is gone", len(n.inspect().Sandboxes), 1)
	equal(t, "lists for a good inspection", n.runtime.Calls("ListPodSandbox"), 4)
}

// A shim that hangs or a broken record affects one sandbox only.
func TestInspect_BrokenStatusAffectsOneSandbox(t *testing.T) {
	n := newNode(t, critest.Containerd)
	clock := noon
	n.Now = func() time.Time { return clock }
	well, ill := web("1a"), web("2b")
	well.NetNS, ill.NetNS = n.namespace("a"), n.namespace("b")
	n.setSandboxes(well, ill)
	n.inspect()
	well.NotReady, well.Closed, ill.NotReady, ill.Closed, ill.HasBrokenStatus = true, true, true, true, true
	n.setSandboxes(well, ill)
	equal(t, "the other's network", networkState(n.sandbox(well.ID).NetworkClosed), "closed")
	b := n.sandbox(ill.ID)
	equal(t, "its own", networkState(b.NetworkClosed), "open") // by its path
	equal(t, "relevant", b.IsIrrelevant, false)
	equal(t, "unreadable", len(n.Unreadable()), 1)
	calls := n.runtime.Calls("PodSandboxStatus")
	for range 4 {
		clock = clock.Add(time.Second)
		n.inspect()
	}
	equal(t, "calls within the delay", n.runtime.Calls("PodSandboxStatus"), calls)
	ill.HasBrokenStatus = false
	n.setSandboxes(well, ill)
	clock = clock.Add(time.Minute)
	equal(t, "when it answers again", networkState(n.sandbox(ill.ID).NetworkClosed), "closed")
	equal(t, "unreadable then", len(n.Unreadable()), 0)
}

func TestInspect_MissingResultsFolder(t *testing.T) {
	n := newNode(t, critest.Containerd)
	n.remove(n.results())
	equal(t, "sandboxes on the host network", len(n.inspect().Sandboxes), 1)
	n.runtime.Set(web("1a"), n.own)
	if err := n.inspectError(); !strings.Contains(err.Error(), "--cni-results") {
		t.Errorf("got %v", err)
	}
}

func TestInspect_TimesOutsideTheAPIsRange(t *testing.T) {
	n := newNode(t, critest.Containerd)
	sandbox := web("1a")
	sandbox.CreatedAt = time.Date(1754, 8, 30, 0, 0, 0, 0, time.UTC)
	n.setSandboxes(sandbox)
	file := n.addCache("wb", id("2b"), "net1", "/x", "10.0.0.5/24")
	before := time.Unix(-1000, 0)
	check(t, os.Chtimes(file, before, before))
	equal(t, "created", n.sandbox(sandbox.ID).CreatedAt, metav1.Time{})
	equal(t, "since", n.attachment().Since.UTC(), time.Unix(0, 0).UTC())
}

func TestInspect_StatusCalls(t *testing.T) {
	for name, c := range map[string]struct {
		style critest.Style
		calls []int // of each inspection; the first includes the agent and the additional sandbox
	}{
		"containerd": {critest.Containerd, []int{3, 0, 1, 1, 1, 0, 1, 0}},
		"CRI-O":      {critest.CRIO, []int{3, 0, 1, 0, 0, 0, 1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, c.style)
			sandbox := web("1a")
			for i, change := range []func(){
				func() {},
				func() {}, // no change
				func() { sandbox.NotReady = true },
				func() {},                        // its network is still open
				func() { sandbox.Closed = true }, // without a change of state
				func() {},
				func() { sandbox.ID = id("2b") }, // another sandbox
				func() {},
			} {
				change()
				n.setSandboxes(sandbox)
				before := n.runtime.Calls("PodSandboxStatus")
				s := n.sandbox(sandbox.ID)
				equal(t, "calls for details at inspection "+string(rune('1'+i)), n.runtime.Calls("PodSandboxStatus")-before,
					c.calls[i])
				want := "not known"
				if c.style == critest.Containerd {
					want = "open"
					if sandbox.Closed {
						want = "closed"
					}
				}
				equal(t, "network at inspection "+string(rune('1'+i)), networkState(s.NetworkClosed), want)
			}
		})
	}
}

// The files of a sandbox have more addresses than a report: neither the sandbox nor, before the runtime lists it, the
// attachment is said to have no others, also if all were known before.
func TestInspect_MoreAddressesThanAReportHas(t *testing.T) {
	n := newNode(t, critest.Containerd)
	var ips []string
	for i := range 200 {
		ips = append(ips, fmt.Sprintf("10.0.0.%d/24", i+1))
	}
	of := []v1alpha1.Network{{Range: "10.0.0.0/24"}}
	n.addCache("wb", id("1a"), "net1", n.namespace("a"), ips...)
	a := n.attachment()
	equal(t, "the attachment's unread addresses", a.AddressesUnread, true)
	equal(t, "what the attachment may carry", a.MayCarry, of)
	n.addCache("wb", id("1a"), "net1", n.namespace("a"), ips[:2]...)
	a = n.attachment()
	equal(t, "with two addresses", []any{a.AddressesUnread, len(a.MayCarry), len(a.Addresses)}, []any{false, 0, 2})
	n.setSandboxes(web("1a"))
	equal(t, "the sandbox's, with two", n.sandbox(id("1a")).AddressesUnread, false)
	n.addCache("wb", id("1a"), "net1", n.namespace("a"), ips...)
	s := n.sandbox(id("1a"))
	equal(t, "the sandbox's unread addresses", s.AddressesUnread, true)
	equal(t, "what the sandbox may carry", s.MayCarry, of)
}

// Last known addresses that do not fit into a report stay unread at the next inspection, too, although no cache file
// names their network any more.
func TestInspect_LastKnownAddressesThatAreLeftOut(t *testing.T) {
	n := newNode(t, critest.Containerd)
	config := func(name, cidr string) string {
		return fmt.Sprintf(`{"cniVersion":"1.0.0","name":%q,"type":"macvlan","ipam":{"type":"whereabouts","range":%q}}`,
			name, cidr)
	}
	add := func(name, cidr, ifName string, count int) (path string) {
		with := []string{"/x"}
		for i := range count {
			with = append(with, strings.Replace(cidr, "0/", fmt.Sprintf("%d/", 101+i), 1))
		}
		path = filepath.Join(n.cni, "multus", "results", name+"-"+id("1a")+"-"+ifName)
		n.mkdir(filepath.Dir(path))
		check(t, os.Rename(n.addCacheWithConfig(id("1a"), name, ifName, config(name, cidr), with...), path))
		return path
	}
	n.addCacheWithConfig(id("1a"), "multus", "eth0", `{"cniVersion":"1.0.0","name":"multus","type":"multus"}`)
	list, err := json.Marshal([]map[string][]byte{{"Bytes": []byte(config("a", "10.1.0.0/24"))},
		{"Bytes": []byte(config("b", "10.2.0.0/24"))}})
	check(t, err)
	n.file(filepath.Join(n.cni, "multus", id("1a")), string(list))
	first := add("a", "10.1.0.0/24", "eth0", 1)
	add("b", "10.2.0.0/24", "net1", 35)
	later := add("c", "10.3.0.0/24", "net2", 25) // is not in Multus' own file
	n.setSandboxes(web("1a"))
	s := n.sandbox(id("1a"))
	equal(t, "addresses", []any{len(s.Addresses), s.AddressesUnread}, []any{61, false})
	n.remove(first)
	n.remove(later)
	add("b", "10.2.0.0/24", "net1", 50)
	for i := range 3 {
		s = n.sandbox(id("1a"))
		mayCarry := fmt.Sprint(s.MayCarry)
		if len(s.Addresses) < 60 || !s.AddressesUnread || !strings.Contains(mayCarry, "10.3.0.0/24") {
			t.Errorf("inspection %d: %d addresses, unread: %v, may carry %s", i, len(s.Addresses), s.AddressesUnread, mayCarry)
		}
	}
}
