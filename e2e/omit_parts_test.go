//go:build !slow && !cluster

package e2e

import "testing"

func TestOmit_Parts(t *testing.T) {
	t.Parallel()
	const output = "Cluster a\n\nb in pool\n  verdict\n\nb in reservation\n\nnode x\n\nDO\nb:\n  one\n  two\n"
	equal(t, "two paragraphs and lines", omit(t, output, part{from: "b in "}, part{"  one", "  two"}),
		"Cluster a\n\n…\n\nnode x\n\nDO\nb:\n…\n  two\n")
	equal(t, "adjacent paragraphs of several parts", omit(t, output, part{from: "node"}, part{from: "b in "}),
		"Cluster a\n\n…\n\nDO\nb:\n  one\n  two\n")
}
