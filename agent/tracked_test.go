package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

func ips(s agent.ListedSandbox) string {
	var all []string
	for _, a := range s.Addresses {
		all = append(all, a.IP)
	}
	return strings.Join(all, " ")
}

// Somebody empties the CNI caches by hand; running sandboxes keep their addresses.
func TestInspect_KeepsLastKnownAddresses(t *testing.T) {
	for name, restart := range map[string]func(n *testNode, report *v1alpha1.SandboxReport){
		"while the agent runs": func(*testNode, *v1alpha1.SandboxReport) {},
		"and the agent restarts": func(n *testNode, r *v1alpha1.SandboxReport) {
			n.NodeInspector = n.newInspector()
			n.Resume(roundTrip(n, r), true)
		},
		"and it is not known here": func(n *testNode, r *v1alpha1.SandboxReport) {
			n.NodeInspector = n.newInspector()
			n.Resume(roundTrip(n, r), false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, critest.Containerd)
			sandbox := web("1a")
			file := n.addCache("wb", sandbox.ID, "net1", "/x", "10.0.0.5/24")
			n.setSandboxes(sandbox)
			report := agent.NextReport(nil, n.inspect())
			n.remove(file)
			restart(n, report)
			for range 2 {
				s := n.sandbox(sandbox.ID)
				equal(t, "addresses while it runs", ips(s), "10.0.0.5")
				equal(t, "unread while it runs", s.AddressesUnread, false)
			}
			sandbox.NotReady = true
			n.setSandboxes(sandbox)
			s := n.sandbox(sandbox.ID)
			equal(t, "addresses when it is not ready", ips(s), "10.0.0.5")
			equal(t, "unread when it is not ready", s.AddressesUnread, false)
			sandbox.Closed = true
			n.setSandboxes(sandbox)
			s = n.sandbox(sandbox.ID)
			equal(t, "addresses when its network is closed", ips(s), "")
			equal(t, "unread when its network is closed", s.AddressesUnread, false)
		})
	}
}

func TestInspect_EntryReplacesAddresses(t *testing.T) {
	n := newNode(t, critest.Containerd)
	sandbox := web("1a")
	n.addCache("wb", sandbox.ID, "net1", "/x", "10.0.0.5/24")
	second := n.addCache("wb", sandbox.ID, "net2", "/x", "10.0.0.6/24")
	n.setSandboxes(sandbox)
	equal(t, "at first", ips(n.sandbox(sandbox.ID)), "10.0.0.5 10.0.0.6")
	n.remove(second)
	equal(t, "when a complete entry has fewer", ips(n.sandbox(sandbox.ID)), "10.0.0.5")
	n.addCache("wb", sandbox.ID, "net1", "/x", "10.0.0.70/24")
	n.file(filepath.Join(n.results(), "wb-"+sandbox.ID+"-net2"), "{")
	equal(t, "when one of two files cannot be read", ips(n.sandbox(sandbox.ID)), "10.0.0.70")
	equal(t, "unread then", n.sandbox(sandbox.ID).AddressesUnread, true)
}

// A network of whereabouts is plugged into a running pod, and its result file is lost. The files of the pod's first
// networks remain and look complete, but the sandbox still has the address.
func TestInspect_LostResultOfAPluggedNetwork(t *testing.T) {
	unread := func(r *v1alpha1.SandboxReport) {
		for i := range r.Sandboxes {
			r.Sandboxes[i].Addresses, r.Sandboxes[i].AddressesUnread = nil, true
		}
	}
	for name, change := range map[string]func(n *testNode, report *v1alpha1.SandboxReport){
		"while the agent runs": func(*testNode, *v1alpha1.SandboxReport) {},
		"and the agent restarts": func(n *testNode, r *v1alpha1.SandboxReport) {
			n.NodeInspector = n.newInspector()
			n.Resume(roundTrip(n, r), true)
		},
		"and the agent restarts, and the report before had no room for the address": func(n *testNode,
			r *v1alpha1.SandboxReport) {
			unread(r)
			n.NodeInspector = n.newInspector()
			n.Resume(roundTrip(n, r), true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, critest.Containerd)
			sandbox := web("1a")
			sandbox.NetNS = n.namespace("a")
			n.addCacheWithConfig(sandbox.ID, "multus", "eth0", `{"cniVersion":"1.0.0","name":"multus","type":"multus-shim"}`,
				sandbox.NetNS)
			kindnet := `{"cniVersion":"1.0.0","name":"kindnet","type":"ptp","ipam":{"type":"host-local"}}`
			list, err := json.Marshal([]map[string][]byte{{"Bytes": []byte(kindnet)}})
			check(t, err)
			n.file(filepath.Join(n.cni, "multus", sandbox.ID), string(list))
			delegate := func(from string) string {
				to := filepath.Join(n.cni, "multus", "results", filepath.Base(from))
				n.mkdir(filepath.Dir(to))
				check(t, os.Rename(from, to))
				return to
			}
			delegate(n.addCacheWithConfig(sandbox.ID, "kindnet", "eth0", kindnet, sandbox.NetNS, "10.244.0.5/24"))
			n.setSandboxes(sandbox)
			equal(t, "irrelevant before it is plugged in", n.sandbox(sandbox.ID).IsIrrelevant, true)
			plugged := delegate(n.addCache("wb", sandbox.ID, "net1", sandbox.NetNS, "10.0.0.5/24"))
			report := agent.NextReport(nil, n.inspect())
			equal(t, "sandboxes in the report", len(report.Sandboxes), 1)
			n.remove(plugged)
			change(n, report)
			for range 2 {
				equal(t, "irrelevant when the result is lost", n.sandbox(sandbox.ID).IsIrrelevant, false)
				report = agent.NextReport(report, n.inspect())
				equal(t, "sandboxes in the report then", len(report.Sandboxes), 1)
			}
		})
	}
}

// A user attaches a running pod to a network whose config hides whereabouts, or empties the caches after that.
func TestInspect_InterfaceOfUnknownNetwork(t *testing.T) {
	n := newNode(t, critest.Containerd)
	sandbox := web("1a")
	n.addCache("wb", sandbox.ID, "net1", "/x", "10.0.0.5/24")
	n.setSandboxes(sandbox)
	s := n.sandbox(sandbox.ID)
	equal(t, "unread at first", s.AddressesUnread, false)
	equal(t, "interfaces at first", fmt.Sprint(s.Interfaces), "[]")
	path := n.addCacheWithConfig(sandbox.ID, "other", "net2",
		`{"cniVersion":"1.0.0","name":"other","type":"own","in":{"ipam":{"type":"whereabouts"}}}`)
	check := func(when string) {
		s := n.sandbox(sandbox.ID)
		equal(t, "unread "+when, s.AddressesUnread, true)
		equal(t, "interfaces "+when, fmt.Sprint(s.Interfaces), "[net2]")
	}
	check("with it")
	report := agent.NextReport(nil, n.inspect())
	n.remove(path)
	n.remove(filepath.Join(n.results(), "wb-"+sandbox.ID+"-net1"))
	check("when the caches are empty")
	n.NodeInspector = n.newInspector()
	n.Resume(roundTrip(n, report), true)
	check("after a restart")
}

func TestInspect_AddressesUnread(t *testing.T) {
	for name, c := range map[string]struct {
		unread bool
		with   func(n *testNode, s *critest.Sandbox)
	}{
		"no entry": {true, func(*testNode, *critest.Sandbox) {}},
		"an entry with all": {false, func(n *testNode, s *critest.Sandbox) {
			n.addCache("wb", s.ID, "net1", "/x", "10.0.0.5/24")
		}},
		"none, and it is on the host network": {false, func(_ *testNode, s *critest.Sandbox) { s.HostNetwork = true }},
		"none, and it is not ready":           {true, func(_ *testNode, s *critest.Sandbox) { s.NotReady = true }},
		"none, and its network is closed": {false, func(_ *testNode, s *critest.Sandbox) {
			s.NotReady, s.Closed = true, true
		}},
		"none, and only a plain status": {true, func(_ *testNode, s *critest.Sandbox) { s.HasBrokenStatus = true }},
		"none, and no status is answered": {true, func(_ *testNode, s *critest.Sandbox) {
			s.HasBrokenStatus, s.HasNoStatus, s.HostNetwork = true, true, true
		}},
		"none, and its plain status says host network": {false, func(_ *testNode, s *critest.Sandbox) {
			s.HasBrokenStatus, s.HostNetwork = true, true
		}},
		"none, and an earlier report has it unread": {true, func(n *testNode, s *critest.Sandbox) {
			n.Resume(&v1alpha1.SandboxReport{Sandboxes: []v1alpha1.Sandbox{{ID: s.ID, AddressesUnread: true,
				Addresses: []v1alpha1.Address{{IP: "10.0.0.5"}}}}}, true)
		}},
		"none, and an earlier report has them": {false, func(n *testNode, s *critest.Sandbox) {
			n.Resume(&v1alpha1.SandboxReport{Sandboxes: []v1alpha1.Sandbox{{ID: s.ID,
				Addresses: []v1alpha1.Address{{IP: "10.0.0.5"}}}}}, true)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, critest.Containerd)
			sandbox, other := web("1a"), web("2b")
			n.addCache("wb", other.ID, "net1", "/x", "10.0.0.6/24")
			c.with(n, &sandbox)
			n.setSandboxes(sandbox, other)
			equal(t, "unread", n.sandbox(sandbox.ID).AddressesUnread, c.unread)
			equal(t, "unread at the next inspection", n.sandbox(sandbox.ID).AddressesUnread, c.unread)
			equal(t, "the other's", n.sandbox(other.ID).AddressesUnread, false)
		})
	}
}

// The folders belong to another runtime, Multus has another cniDir, or the folder was unmounted. A sandbox that is
// being set up would be invisible.
func TestInspect_WrongCaches(t *testing.T) {
	byMultus := func(n *testNode, id string) string {
		return n.addCacheWithConfig(id, "m", "eth0", `{"cniVersion":"1.0.0","name":"m","type":"multus-shim"}`)
	}
	for name, c := range map[string]struct {
		says string // the error, "" for none
		with func(n *testNode, sandboxes []critest.Sandbox)
	}{
		"none has an entry": {"none of the 2 running sandboxes on a pod network has an entry in",
			func(*testNode, []critest.Sandbox) {}},
		"one has": {"", func(n *testNode, b []critest.Sandbox) { n.addCache("kindnet", b[0].ID, "eth0", "/x") }},
		"none, but they are on the host network": {"", func(_ *testNode, b []critest.Sandbox) {
			b[0].HostNetwork, b[1].HostNetwork = true, true
		}},
		"none, but they are not ready": {"", func(_ *testNode, b []critest.Sandbox) {
			b[0].NotReady, b[1].NotReady = true, true
		}},
		"Multus has none": {"none of the 2 running sandboxes of Multus has an entry in", func(n *testNode,
			b []critest.Sandbox) {
			byMultus(n, b[0].ID)
			byMultus(n, b[1].ID)
		}},
		"Multus has one": {"", func(n *testNode, b []critest.Sandbox) {
			byMultus(n, b[0].ID)
			byMultus(n, b[1].ID)
			n.file(filepath.Join(n.cni, "multus", b[1].ID), "[]")
		}},
		"one is of Multus, which has none": {"none of the 1 running sandboxes of Multus", func(n *testNode,
			b []critest.Sandbox) {
			byMultus(n, b[0].ID)
			n.addCache("kindnet", b[1].ID, "eth0", "/x")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, critest.Containerd)
			sandboxes := []critest.Sandbox{web("1a"), web("2b")}
			c.with(n, sandboxes)
			n.runtime.Set(append(sandboxes, n.own)...)
			if c.says == "" {
				n.inspect()
				return
			}
			err := n.inspectError()
			for _, want := range []string{c.says, filepath.Join(n.cni, "multus"), "--cni-multus"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
		})
	}
}

func TestInspect_UnreadableEndsWithSandbox(t *testing.T) {
	n := newNode(t, critest.Containerd)
	sandbox, lost, other := web("1a"), web("2b"), web("3c")
	sandbox.NetNS, lost.NetNS, other.NetNS = n.namespace("a"), n.namespace("b"), n.namespace("c")
	n.setSandboxes(sandbox, lost, other)
	n.inspect()
	sandbox.HasBrokenStatus, sandbox.NotReady, lost.HasBrokenStatus, lost.NotReady = true, true, true, true
	n.setSandboxes(sandbox, lost, other)
	n.inspect()
	equal(t, "while they are listed", len(n.Unreadable()), 2)
	n.remove(sandbox.NetNS)
	n.setSandboxes(other)
	equal(t, "whose network is still there", n.attachment().ID, lost.ID)
	equal(t, "when they are gone", len(n.Unreadable()), 0)
}

// A sandbox status contains the environment of its pod, and a network config may contain credentials of its plugin.
func TestInspect_NoSecretsInReportOrErrors(t *testing.T) {
	const hush = "hUsH"
	for name, style := range styles {
		for what, config := range map[string]string{
			"a config that can be read": `{"cniVersion":"1.0.0","name":"wb","type":"macvlan","password":"hUsH",` +
				`"ipam":{"type":"whereabouts","range":"10.0.0.0/24","kubernetes":{"kubeconfig":"/etc/hUsH"}}}`,
			"a config that ends early": `{"name":"wb","password":"hUsH`,
			"a config that is no JSON": `password: hUsH`,
			"a config of another type": `{"type":["hUsH"],"ipam":"hUsH"}`,
			"an unknown plugin": `{"type":"own","env":{"TOKEN":"hUsH"},"ipam":{"type":"whereabouts",` +
				`"range":{"hUsH":1}}}`,
			"a config without any plugin": `{"token":"hUsH"}`,
		} {
			t.Run(what+", "+name, func(t *testing.T) {
				n := newNode(t, style)
				path := n.namespace("cni-1")
				sandbox := web("2b")
				sandbox.NetNS, sandbox.Secret = path, hush
				n.setSandboxes(sandbox)
				n.addCacheWithConfig(sandbox.ID, "wb", "net1", config, path, "10.0.0.5/24")
				n.file(filepath.Join(n.cni, "multus", sandbox.ID), fmt.Sprintf(`[{"Conf":{"name":"hUsH"},"Bytes":%s}]`,
					jsonOf(t, []byte(config))))
				n.file(filepath.Join(n.cni, "multus", "results", "wb-"+sandbox.ID+"-net2"), `{"kind":"cniCacheV1","config":"hUsH!"`)
				report := agent.NextReport(nil, n.inspect())
				said := jsonOf(t, report)
				for _, err := range n.Caches.Unreadable() {
					said += "\n" + err.Error()
				}
				n.runtime.Fail("PodSandboxStatus", errors.New("the shim is gone"))
				if _, err := n.newInspector().Inspect(t.Context()); err != nil {
					said += "\n" + err.Error()
				}
				if len(report.Sandboxes) == 0 || strings.Contains(said, hush) || strings.Contains(said, "/etc/") {
					t.Errorf("%s", said)
				}
			})
		}
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	check(t, err)
	return string(text)
}
