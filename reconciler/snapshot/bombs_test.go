package snapshot

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/heaptest"
)

// Values of three bytes take a multiple in memory. They are counted before an object is decoded.
func TestLimits_ValuesAreCountedBeforeDecoding(t *testing.T) {
	head := `{"apiVersion":"v1","kind":"KIND","metadata":{"name":"p","namespace":"kube-system"`
	object := func(kind, before, what, after string) string {
		return strings.Replace(head, "KIND", kind, 1) + before + what + after
	}
	many := func(kind, before, value, after string) func() string { // 4 MB
		return func() string { return object(kind, before, strings.Repeat(value, 1_300_000), after) }
	}
	arrays := func(before, after string) func() string { // 27 MB
		return func() string { return before + strings.Repeat("[],", 9_000_000) + after }
	}
	pool := strings.Replace(head, "KIND", "IPPool", 1) + `},"x":[`
	const objects, values, nodes = "bytes (an object may have", "values", "nodes of YAML"
	for what, c := range map[string]struct {
		text  func() string
		error string
	}{
		"27 MB of arrays in a pool":     {arrays(pool, "0]}"), objects},
		"the same in a List":            {arrays(`{"kind":"List","items":[`+pool, "0]}]}"), objects},
		"the same in YAML":              {arrays("kind: IPPool\nx: [", "0]\n"), nodes},
		"the same in an item of YAML":   {arrays("kind: List\nitems:\n- x: [", "0]\n"), nodes},
		"4 MB of arrays in a pool":      {many("IPPool", `},"x":[`, "[],", "0]}"), values},
		"4 MB of entries of a pool":     {many("IPPool", `},"spec":{"allocations":[`, "{},", "0]}}"), values},
		"4 MB of sandboxes of a report": {many("SandboxReport", `},"sandboxes":[`, "{},", "{}]}"), values},
		"4 MB of containers of a pod":   {many("Pod", `},"spec":{"containers":[`, "{},", "{}]}}"), values},
		"4 MB of owners of a pod":       {many("Pod", `,"ownerReferences":[`, "{},", "{}]}}"), values},
		"4 MB of taints of a Node":      {many("Node", `},"spec":{"taints":[`, "{},", "{}]}}"), values},
		"a key twice":                   {many("IPPool", `},"x":{"a":1,"a":[`, "0,", `0]}}`), "duplicate field"},
		"no text in a definition":       {many("NetworkAttachmentDefinition", `},"spec":[`, "{},", "0]}"), values},
	} {
		packed := packedText(t, []byte(c.text()))
		var err error
		most := heaptest.Peak(64<<20, func() { _, err = OpenStream("x.gz", bytes.NewReader(packed), time.Time{}, "") })
		if err == nil || !strings.Contains(err.Error(), c.error) || c.error == values && !errors.Is(err, errTooLarge) {
			t.Errorf("%s: %v", what, err)
		}
		if most > 200<<20 {
			t.Errorf("%s: %d bytes of gzip took %d MiB", what, len(packed), most>>20)
		}
	}
}

// A text is not nested deeper than encoding/json reads it.
func TestLimits_Depth(t *testing.T) {
	text := `{"apiVersion":"v1","kind":"IPPool","metadata":{"name":"p","namespace":"n"},"x":` +
		strings.Repeat("[", 1_000_000) + strings.Repeat("]", 1_000_000) + "}"
	_, err := OpenStream("x.json", strings.NewReader(text), time.Time{}, "")
	if err == nil || !strings.Contains(err.Error(), "nested too deeply") {
		t.Error(err)
	}
}
