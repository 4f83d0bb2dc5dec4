package main

import (
	"path/filepath"
	"strings"
	"testing"
)

const definition = `apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: storage, namespace: default}
spec: {config: '{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/23"}}'}
`

// A file of which only a part would be read is refused, since the rest may assign other ranges.
func TestPoolsCheck_DefinitionThatIsNotOne(t *testing.T) {
	const one = "must have one NetworkAttachmentDefinition of k8s.cni.cncf.io"
	for what, c := range map[string]struct{ text, says string }{
		"two definitions": {definition + "---\n" + strings.ReplaceAll(definition, "storage", "other"), "several documents"},
		"two of JSON": {`{"kind":"NetworkAttachmentDefinition"}` + "\n" + `{"kind":"NetworkAttachmentDefinition"}`,
			"several documents"},
		"a config twice":    {definition + "spec: {config: '{}'}\n", `"spec"`},
		"a field twice":     {strings.Replace(definition, "{config:", "{config: '{}', config:", 1), `"config"`},
		"of another group":  {strings.Replace(definition, "k8s.cni.cncf.io", "example.com", 1), one},
		"without a version": {strings.Replace(definition, "apiVersion: k8s.cni.cncf.io/v1\n", "", 1), one},
		"a list": {"apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(definition, "\n", "\n  ") + "\n",
			one},
		"empty": {" \n", "is empty"},
		"large": {definition + "x: [" + strings.Repeat("[],", 2_000_000) + "0]\n", "too large"},
		"long":  {definition + "# " + strings.Repeat("x", 40<<20), "too large"},
	} {
		file := filepath.Join(t.TempDir(), "nad.yaml")
		write(t, file, c.text)
		code, out, errs := run(t, "pools", "check", "--definition", file, "--snapshot", sample)
		if code != exitFailed || !strings.Contains(errs, c.says) || !strings.Contains(errs, file) {
			t.Errorf("%s: exit code %d, stdout %.300q, stderr %.300q", what, code, out, errs)
		}
	}
}

// Nodes without a slice make a definition one that is not safe.
func TestPoolsCheck_UncutSlices(t *testing.T) {
	cluster := t.TempDir()
	for _, name := range []string{"a", "b"} {
		write(t, filepath.Join(cluster, name+".yaml"),
			"apiVersion: v1\nkind: Node\nmetadata: {name: "+name+", uid: "+name+"}\n")
	}
	write(t, filepath.Join(cluster, "pool.yaml"), "apiVersion: whereabouts.cni.cncf.io/v1alpha1\nkind: IPPool\n"+
		"metadata: {name: 10.1.0.0-24, namespace: kube-system}\nspec: {range: 10.1.0.0/24, allocations: {}}\n")
	write(t, filepath.Join(cluster, "reservation.yaml"), "apiVersion: whereabouts.cni.cncf.io/v1alpha1\n"+
		"kind: OverlappingRangeIPReservation\nmetadata: {name: 10.1.0.9, namespace: kube-system, "+
		"creationTimestamp: 2026-01-01T00:00:00Z}\n"+
		"spec: {podref: default/a, ifname: net1}\n")
	write(t, filepath.Join(cluster, "nad.yaml"), definition)
	for slice, want := range map[string]struct {
		code int
		says string
	}{
		"/28": {exitClean, "answer: Safe"},
		"/24": {exitUnresolved, "enough for 1 of 2 nodes: ADDs fail"},
		"/31": {exitFailed, "no address of such a slice can be assigned"},
	} {
		file := filepath.Join(t.TempDir(), "nad.yaml")
		write(t, file, strings.Replace(definition, `10.0.0.0/23"`, `10.0.0.0/24","node_slice_size":"`+slice+`"`, 1))
		code, out, errs := run(t, "pools", "check", "--definition", file, "--snapshot", cluster, "--pods-complete",
			"-o", "yaml")
		if code != want.code || !strings.Contains(out+errs, want.says) {
			t.Errorf("slices of %s: exit code %d, stdout %s, stderr %s", slice, code, out, errs)
		}
	}
}
