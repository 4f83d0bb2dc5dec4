package snapshot_test

import (
	_ "embed" // of everyKind
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// everyKind is what 'kubectl get … -A -o yaml' writes of one object a kind: a List, its sequences in the column of
// their key.
//
//go:embed testdata/every-kind.yaml
var everyKind string

func TestRead_ListOfEveryKind(t *testing.T) {
	o := observe(t, open(t, folder(t, map[string]string{"all.yaml": everyKind})))
	if len(o.Unreadable) > 0 || len(o.Warnings) > 0 {
		t.Errorf("unreadable %q, warnings %q", o.Unreadable, o.Warnings)
	}
	p := poolNamed(t, o, "10.0.0.0-24")
	equal(t, "entries", len(p.Allocations), 2)
	if a := p.Find("09"); a == nil || a.Problem != "" || a.Address.String() != "10.0.0.9" {
		t.Errorf("the key 09 is %+v: it is a text and no number", a)
	}
	equal(t, "resourceVersion", p.ResourceVersion, "1234")
	r := reservationNamed(t, o, "10.0.0.5")
	equal(t, "reservation's UID", r.UID, "r5")
	equal(t, "reservation's time", r.Created.Format("15:04"), "10:00")
	nad := o.NADs.Or(nil)[name("default", "macvlan")]
	if nad == nil || nad.Problem != "" || len(nad.Networks) != 1 {
		t.Errorf("NAD %+v", nad)
	}
	pod := o.Pods[name("default", "a")]
	if pod == nil || pod.Phase != podstate.Live || pod.Status != podstate.StatusReadable || len(pod.Interfaces) != 1 ||
		pod.Node != "worker-1" {
		t.Errorf("pod %+v", pod)
	}
	node := o.Nodes.Or(nil)["worker-1"]
	if node == nil || !node.Ready || node.BootID != "boot-1" {
		t.Errorf("node %+v", node)
	}
	if len(o.Reports.Or(nil)) != 1 || len(o.Reports.Or(nil)[0].Sandboxes) != 1 || !o.Reports.Or(nil)[0].IsFresh(noon) {
		t.Errorf("reports %+v", o.Reports)
	}
	equal(t, "now", o.Now, noon)
}

func TestRead_EveryForm(t *testing.T) {
	const spec = `{"range":"10.0.0.0/24","allocations":{"5":{"id":"c5","podref":"default/a","ifname":"net1"}}}`
	const object = `{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","kind":"IPPool",` +
		`"metadata":{"namespace":"kube-system","name":"p"},"spec":` + spec + `}`
	const block = "apiVersion: whereabouts.cni.cncf.io/v1alpha1\nkind: IPPool\n" +
		"metadata: {namespace: kube-system, name: p}\nspec: " + spec + "\n"
	indented := func(text, by string) string {
		return by + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+by) + "\n"
	}
	for title, file := range map[string][2]string{
		"a JSON object": {"p.json", object},
		"a JSON List":   {"p.json", `{"kind":"List","apiVersion":"v1","items":[` + object + `]}`},
		"JSON with tabs": {"p.json", "{\n\t\"kind\": \"List\",\n\t\"items\": [\n\t\t" + object +
			"\n\t]\n}\n"},
		"JSON in a file called .yaml":            {"p.yaml", "\n" + object},
		"YAML":                                   {"p.yaml", block},
		"YAML called .yml":                       {"p.yml", block},
		"YAML out of gzip":                       {"p.yaml.gz", zipped(t, block)},
		"JSON out of gzip":                       {"p.json.gz", zipped(t, object)},
		"YAML that begins with a line of dashes": {"p.yaml", "---\n" + block},
		"YAML with CRLF":                         {"p.yaml", strings.ReplaceAll(block, "\n", "\r\n")},
		"two documents":                          {"p.yaml", "kind: ConfigMap\nmetadata: {name: x}\n---\n" + block},
		"empty documents and comments around it": {"p.yaml", "# nothing\n---\n---\n# a pool\n" + block + "---\n# nothing\n"},
		"a List with its items indented": {"p.yaml", "kind: List\nitems:\n  - " +
			strings.TrimLeft(indented(block, "    "), " ")},
		"a List with its items in the key's line": {"p.yaml", "kind: List\nitems:\n- " +
			strings.TrimLeft(indented(block, "  "), " ")},
		"an IPPoolList": {"p.yaml", "kind: IPPoolList\nitems:\n- " + strings.TrimLeft(indented(block, "  "), " ")},
		"folders in folders (must-gather)": {"cluster/namespaces/kube-system/whereabouts.cni.cncf.io/ippools/p.yaml",
			"---\n" + block},
	} {
		t.Run(title, func(t *testing.T) {
			o := observe(t, open(t, folder(t, map[string]string{file[0]: file[1], "empty.yaml": "", "notes.txt": "{"})))
			p := poolNamed(t, o, "p")
			if a := p.Find("5"); p.Problem != "" || a == nil || a.Problem != "" || a.PodRef != "default/a" ||
				a.ContainerID != "c5" || a.IfName != "net1" {
				t.Errorf("problem %q, entry %+v", p.Problem, a)
			}
			equal(t, "entries", len(p.Allocations), 1)
			if len(o.Unreadable) > 0 {
				t.Errorf("unreadable: %q", o.Unreadable)
			}
		})
	}
}

func TestYAML_Scalars(t *testing.T) {
	o := observeFile(t, `
apiVersion: whereabouts.cni.cncf.io/v1alpha1
kind: IPPool
metadata: {namespace: kube-system, name: scalars, resourceVersion: "007"}
spec:
  range: 10.0.0.0/24
  allocations:
    05: {id: c1, podref: default/a}
    6: {id: "0123", podref: default/a}
    0x10: {id: c3, podref: default/a}
    true: {id: c4, podref: default/a}
    ~: {id: c5, podref: default/a}
  later: {whole: 9007199254740993, part: 2.5, yes: true, none: null, when: 2026-11-20, big: 18446463705355360228}
`)
	p := poolNamed(t, o, "scalars")
	equal(t, "resourceVersion", p.ResourceVersion, "007")
	for key, problem := range map[string]bool{"05": false, "6": false, "0x10": true, "true": true, "~": true} {
		a := p.Find(key)
		if a == nil || (a.Problem != "") != problem {
			t.Errorf("entry %q: %+v", key, a)
		}
	}
	equal(t, "an id of digits", p.Find("6").ContainerID, "0123")
}

func TestRead_OtherKinds(t *testing.T) {
	o := observeFile(t, "kind: ConfigMap\nmetadata: {name: x}\n---\nkind: Secret\nmetadata: {name: y}\n---\n"+
		"apiVersion: whereabouts.cni.cncf.io/v1alpha1\nkind: NodeSlicePool\nmetadata: {namespace: kube-system, name: x}\n"+
		"spec: {range: 10.0.0.0/16, sliceSize: /24}\n")
	if len(o.Warnings) != 1 || !strings.Contains(o.Warnings[0], "2 objects") || len(o.Unreadable) > 0 {
		t.Errorf("warnings %q, unreadable %q", o.Warnings, o.Unreadable)
	}
}

// Calico, Antrea and Harvester have an IPPool kind of their own, and
// 'kubectl get ippools' may well mean theirs.
func TestRead_IPPoolOfAnotherGroup(t *testing.T) {
	const calico = "apiVersion: crd.projectcalico.org/v1\nkind: IPPool\nmetadata: {name: default-ipv4-ippool}\n" +
		"spec: {cidr: 192.168.0.0/16}\n"
	o := observeFile(t, calico)
	equal(t, "pools", len(o.Pools), 1)
	if _, err := open2(t, map[string]string{"ippools.yaml": calico}); err == nil ||
		!strings.Contains(err.Error(), "no IPPool") {
		t.Errorf("a folder with Calico's pools alone: %v", err)
	}
}

func TestRead_PausedNamespace(t *testing.T) {
	const paused = "kind: Namespace\napiVersion: v1\nmetadata: {name: NAME, annotations: {ip-reconcile.dev/paused: " +
		"\"true\"}}\n"
	equal(t, "its own namespace", observeFile(t, strings.Replace(paused, "NAME", home, 1)).Paused, true)
	equal(t, "another namespace", observeFile(t, strings.Replace(paused, "NAME", "default", 1)).Paused, false)
	equal(t, "another value", observeFile(t, strings.Replace(strings.Replace(paused, "NAME", home, 1), `"true"`, `"no"`,
		1)).Paused, false)
	const acknowledged = "kind: Namespace\napiVersion: v1\nmetadata: {name: NAME, annotations: " +
		"{ip-reconcile.dev/restore-acknowledged: k3f7q2m9xa}}\n"
	equal(t, "a restore that is acknowledged", observeFile(t, strings.Replace(acknowledged, "NAME", home, 1)).Acknowledged,
		"k3f7q2m9xa")
	equal(t, "by another namespace", observeFile(t, strings.Replace(acknowledged, "NAME", "default", 1)).Acknowledged, "")
}
