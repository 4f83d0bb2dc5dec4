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
