package border

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"plain, ä 漢\tand\n":      "plain, ä 漢\tand\n",
		"\x1b[2J\r":              `\u001b[2J\u000d`,
		"C1 \u009b, bidi \u202e": `C1 \u009b, bidi \u202e`,
		"tag \U000e0041":         `tag \udb40\udc41`,
		"\xff\x9b":               `\ufffd\ufffd`,
	} {
		var b bytes.Buffer
		n, err := Writer(&b).Write([]byte(text))
		if got := b.String(); got != want || n != len(text) || err != nil {
			t.Errorf("%q is written as %q, want %q (%d, %v)", text, got, want, n, err)
		}
	}
}

// Escaped text is printable, and JSON means the same.
func FuzzEscape(f *testing.F) {
	f.Add("\x1b]0;title\a\u202e\U000e0001\u0085\u2028")
	f.Fuzz(func(t *testing.T, text string) {
		got := Escape(text)
		if i := strings.IndexFunc(got, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }); i >= 0 {
			t.Fatalf("%q is escaped as %q", text, got)
		}
		if !utf8.ValidString(text) {
			return
		}
		encoded, err := json.Marshal(map[string]string{text: text})
		if err != nil {
			t.Fatal(err)
		}
		var back map[string]string
		if err := json.Unmarshal([]byte(Escape(string(encoded))), &back); err != nil || back[text] != text {
			t.Fatalf("%q is %q (%v)", text, back, err)
		}
	})
}
