package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/agent"
)

// A sandbox status contains the environment of its pod, and a network config may contain credentials of its plugin.
func TestInspect_NoSecretsInReportOrErrors(t *testing.T) {
	const hush = "hUsH"
	for name, style := range styles {
		for what, config := range map[string]string{
			"a config that can be read": `{"cniVersion":"1.0.0","name":"wb","type":"macvlan","password":"hUsH",` +
				`"ipam":{"type":"whereabouts","range":"10.0.0.0/24","kubernetes":{"kubeconfig":"/etc/hUsH"}}}`,
			"a config that is cut off": `{"name":"wb","password":"hUsH`,
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
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
