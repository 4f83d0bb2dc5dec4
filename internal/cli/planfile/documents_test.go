package planfile_test

import (
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/planfile"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// The items of a second document would count as released: nobody reads them.
func TestRead_SeveralDocuments(t *testing.T) {
	whole := planOf(uid, Now, three)
	first, second := *whole, *whole
	first.Items, second.Items = whole.Items[:1], whole.Items[1:]
	a, b := string(encode(t, "yaml", &first)), string(encode(t, "yaml", &second))
	for what, text := range map[string]string{
		"YAML": a + "---\n" + b, "YAML of Windows": strings.ReplaceAll(a+"---\n"+b, "\n", "\r\n"),
		"after the end of a document": a + "...\n---\n" + b, "with a comment": a + "--- # the rest\n" + b,
		"JSON after YAML": a + "---\n" + string(encode(t, "json", &second)),
		"YAML after JSON": string(encode(t, "json", &first)) + "---\n" + b,
		"JSON after JSON": string(encode(t, "json", &first)) + "\n---\n" + string(encode(t, "json", &second)),
		"JSON lines":      string(encode(t, "json", &first)) + "\n" + string(encode(t, "json", &second)),
		"broken":          a + "---\n}",
	} {
		if f, err := planfile.Read([]byte(text)); err == nil {
			t.Errorf("%s: read with %d of %d items", what, len(f.Items), len(whole.Items))
		}
	}
	for what, text := range map[string]string{"a mark before": "---\n" + a, "a mark behind": a + "---\n",
		"the end of a document": a + "...\n# nothing\n"} {
		if f, err := planfile.Read([]byte(text)); err != nil || len(f.Items) != 1 {
			t.Errorf("%s: %v", what, err)
		}
	}
}
