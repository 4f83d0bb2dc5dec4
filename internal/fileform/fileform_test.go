package fileform_test

import (
	"bytes"
	"testing"
	"unicode/utf16"

	"github.com/ip-reconcile/ip-reconcile/internal/fileform"
)

func littleEndian(text string) []byte {
	var b bytes.Buffer
	for _, u := range utf16.Encode([]rune(text)) {
		b.Write([]byte{byte(u), byte(u >> 8)})
	}
	return b.Bytes()
}

func TestCheck(t *testing.T) {
	const convert = " in UTF-16, as PowerShell writes it with >: convert it to UTF-8 first: iconv -f "
	for name, c := range map[string]struct {
		head []byte
		want string
	}{
		"a.zip":  {[]byte("PK\x03\x04\x14"), "a.zip is a zip archive: unpack it first: unzip a.zip -d unpacked"},
		"d/a.xz": {[]byte("\xfd7zXZ\x00\x00"), "d/a.xz is packed with xz: unpack it first: xz -dk d/a.xz"},
		"it's a.zs": {[]byte("\x28\xb5\x2f\xfd\x04"), `it's a.zs is packed with zstd: ` +
			`unpack it first: zstd -dk 'it'\''s a.zs'`},
		"-.bz2": {[]byte("BZh91AY"), "-.bz2 is packed with bzip2: unpack it first: bunzip2 -k '-.bz2'"},
		"stdin": {[]byte("7z\xbc\xaf\x27\x1c"), "stdin is a 7z archive: unpack it first"},
		"le":    {littleEndian("kind: Pod"), "le is" + convert + "UTF-16LE -t UTF-8 le > utf8.txt"},
		"be":    {append([]byte{0}, littleEndian("kind: Pod")...), "be is" + convert + "UTF-16BE -t UTF-8 be > utf8.txt"},
		"mark": {append([]byte("\xff\xfe"), littleEndian("kind")...), "mark is" + convert +
			"UTF-16 -t UTF-8 mark > utf8.txt"},
		"yaml":    {[]byte("kind: Pod"), ""},
		"json":    {[]byte("\xef\xbb\xbf{}"), ""},
		"address": {[]byte("::1"), ""},
	} {
		got := ""
		if err := fileform.Check(name, c.head, false); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
		if err := fileform.Check(name, c.head, true); name == "mark" && err != nil {
			t.Errorf("YAML in UTF-16 with a mark: %v", err)
		}
	}
	for text, isEmpty := range map[string]bool{"": true, " \n": true, "\xef\xbb\xbf\r\n": true, "x": false} {
		if err := fileform.CheckEmpty("x", []byte(text)); (err != nil) != isEmpty {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestCheckOne(t *testing.T) {
	for text, isOne := range map[string]bool{
		"a: 1\n": true, "---\na: 1\n---\n": true, "a: 1\n...\n# end\n": true, `{"a":1}`: true, "{a: 1}": true, "": true,
		"a: |\n  x\n  ---\n  y\n": true, "\xff\xfea\x00:\x00 \x001\x00": true,
		"a: 1\n---\na: 2\n": false, "a: 1\r\n--- {b: 1}\r\n": false, "a: 1\n---\n}": false, "a: 1\n...\nb: 2\n": false,
		`{"a":1}{"a":2}`: false, "{\"a\":1}\n{\"a\":2}\n": false, "{\"a\":1}\n---\n{\"a\":2}\n": false,
	} {
		if err := fileform.CheckOne([]byte(text)); (err == nil) != isOne {
			t.Errorf("%q: %v", text, err)
		}
	}
}
