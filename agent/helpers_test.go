package agent_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/agent/cnicache"
	"github.com/ip-reconcile/ip-reconcile/agent/cri"
	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(d)) }

// id returns a container id that begins with the given hex digits.
func id(head string) string { return head + strings.Repeat("0", 64-len(head)) }

func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// testNode is a node with a runtime, CNI caches and network namespaces.
type testNode struct {
	testing.TB
	*agent.NodeInspector
	runtime *critest.Server
	cni     string
	netns   string
	own     critest.Sandbox
}

// newNode returns a node on which only the agent runs.
func newNode(t testing.TB, style critest.Style) *testNode {
	t.Helper()
	n := &testNode{TB: t, runtime: critest.Start(t, style), cni: t.TempDir(), netns: t.TempDir()}
	n.mkdir(n.results())
	n.own = critest.Sandbox{ID: id("99"), Namespace: "kube-system", Name: "agent", UID: "own-uid", HostNetwork: true,
		CreatedAt: noon}
	n.runtime.Set(n.own)
	n.NodeInspector = n.newInspector()
	return n
}

// newInspector returns the inspector of an agent that starts now.
func (n *testNode) newInspector() *agent.NodeInspector {
	n.Helper()
	r, err := cri.Dial(n.runtime.Socket)
	check(n, err)
	n.Cleanup(func() { r.Close() })
	return &agent.NodeInspector{
		Runtime: r, NetNSDirs: []string{n.netns}, OwnUID: "own-uid",
		Caches: cnicache.New(cnicache.Folders{Results: n.results(), Multus: filepath.Join(n.cni, "multus")}),
	}
}

func (n *testNode) results() string { return filepath.Join(n.cni, "results") }

func (n *testNode) mkdir(path string) {
	n.Helper()
	check(n, os.MkdirAll(path, 0o700))
}

// setSandboxes sets the sandboxes of the runtime, in addition to the agent's own. It adds one that is in the CNI
// caches without a whereabouts address, to show that the caches are the node's. inspect leaves that one out.
func (n *testNode) setSandboxes(all ...critest.Sandbox) {
	n.Helper()
	if slices.ContainsFunc(all, func(b critest.Sandbox) bool { return !b.NotReady && !b.HostNetwork }) {
		beside := critest.Sandbox{ID: id("88"), Namespace: "kube-system", Name: "dns-0", UID: "uid-dns", CreatedAt: noon}
		n.addCache("kindnet", beside.ID, "eth0", "/elsewhere/dns", "10.244.0.8/24")
		all = append(slices.Clone(all), beside)
	}
	n.runtime.Set(append(all, n.own)...)
}

func (n *testNode) file(path, content string) string {
	n.Helper()
	n.mkdir(filepath.Dir(path))
	check(n, os.WriteFile(path, []byte(content), 0o600))
	check(n, os.Chtimes(path, noon, noon))
	return path
}

// namespace creates a file in the folder of network namespaces.
func (n *testNode) namespace(name string) string { return n.file(filepath.Join(n.netns, name), "") }

func (n *testNode) remove(path string) {
	n.Helper()
	check(n, os.RemoveAll(path))
}

// addCache writes libcni's cache entry of an ADD: the network wb has whereabouts addresses, kindnet has others.
func (n *testNode) addCache(network, id, ifName, netns string, ips ...string) string {
	n.Helper()
	ipam := `{"type":"host-local"}`
	if network == "wb" {
		ipam = `{"type":"whereabouts","range":"10.0.0.0/24"}`
	}
	return n.addCacheWithConfig(id, network, ifName,
		`{"cniVersion":"1.0.0","name":"`+network+`","type":"macvlan","ipam":`+ipam+`}`, append([]string{netns}, ips...)...)
}

// addCacheWithConfig writes libcni's cache entry of an ADD with this config; with is the namespace and the
// addresses.
func (n *testNode) addCacheWithConfig(id, network, ifName, config string, with ...string) string {
	n.Helper()
	netns := "/x"
	if len(with) > 0 {
		netns, with = with[0], with[1:]
	}
	var addresses []map[string]any
	for _, ip := range with {
		addresses = append(addresses, map[string]any{"interface": 0, "address": ip})
	}
	text, err := json.Marshal(map[string]any{
		"kind": "cniCacheV1", "containerId": id, "ifName": ifName, "networkName": network, "netns": netns,
		"config":  []byte(config),
		"cniArgs": [][2]string{{"K8S_POD_NAMESPACE", "default"}, {"K8S_POD_NAME", "web-0"}, {"K8S_POD_UID", "uid-1"}},
		"result": map[string]any{
			"cniVersion": "1.0.0", "interfaces": []any{map[string]any{"name": ifName, "sandbox": netns}}, "ips": addresses,
		},
	})
	check(n, err)
	return n.file(filepath.Join(n.results(), network+"-"+id+"-"+ifName), string(text))
}

func (n *testNode) inspect() *agent.Inspection {
	n.Helper()
	inspection, err := n.Inspect(n.Context())
	check(n, err)
	inspection.Sandboxes = slices.DeleteFunc(inspection.Sandboxes,
		func(s agent.ListedSandbox) bool { return s.ID == id("88") })
	inspection.Attachments = slices.DeleteFunc(inspection.Attachments,
		func(a v1alpha1.Attachment) bool { return a.ID == id("88") })
	return inspection
}

// inspectError inspects and returns the error, which must exist.
func (n *testNode) inspectError() error {
	n.Helper()
	inspection, err := n.Inspect(n.Context())
	if err == nil || inspection != nil {
		n.Fatalf("there is an inspection: %v, %v", inspection, err)
	}
	return err
}

// sandbox inspects and returns a sandbox, which must exist.
func (n *testNode) sandbox(id string) agent.ListedSandbox {
	n.Helper()
	for _, s := range n.inspect().Sandboxes {
		if s.ID == id {
			return s
		}
	}
	n.Fatalf("%s is not in the inspection", id[:4])
	return agent.ListedSandbox{}
}

// attachment inspects and returns the only attachment.
func (n *testNode) attachment() v1alpha1.Attachment {
	n.Helper()
	inspection := n.inspect()
	if len(inspection.Attachments) != 1 {
		n.Fatalf("not one attachment: %v", inspection.Attachments)
	}
	return inspection.Attachments[0]
}

func web(head string) critest.Sandbox {
	return critest.Sandbox{ID: id(head), Namespace: "default", Name: "web-0", UID: "uid-1", CreatedAt: noon}
}

func networkState(closed *bool) string {
	switch {
	case closed == nil:
		return "not known"
	case *closed:
		return "closed"
	}
	return "open"
}

// check ends the test with an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
