// Package fileform recognizes files that are no text which this program reads, by their first bytes, and says which
// command makes them readable.
package fileform

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Head is how many bytes Check needs of a file.
const Head = 512

// UTF8Mark is the mark with which Windows begins a text. A reader skips it.
const UTF8Mark = "\xef\xbb\xbf"

// packed are the forms of packed files by their first bytes, each with the command that unpacks one.
var packed = []struct{ begin, what, unpack string }{
	{"PK\x03\x04", "a zip archive", "unzip %s -d unpacked"},
	{"PK\x05\x06", "an empty zip archive", "unzip %s -d unpacked"},
	{"\xfd7zXZ\x00", "packed with xz", "xz -dk %s"},
	{"\x28\xb5\x2f\xfd", "packed with zstd", "zstd -dk %s"},
	{"BZh", "packed with bzip2", "bunzip2 -k %s"},
	{"7z\xbc\xaf\x27\x1c", "a 7z archive", "7z x %s -ounpacked"},
	{"\x1f\x8b", "packed with gzip", "gunzip -k %s"},
}

// Check returns an error for the head of a file that is packed, or in UTF-16. name is the path of the file. A reader of
// YAML reads UTF-16 that begins with a mark.
func Check(name string, head []byte, isYAML bool) error {
	for _, p := range packed {
		if bytes.HasPrefix(head, []byte(p.begin)) {
			return fmt.Errorf("%s is %s: unpack it first%s", name, p.what, command(p.unpack, name))
		}
	}
	if from := encoding(head); from != "" && !(isYAML && from == marked) {
		return fmt.Errorf("%s is in UTF-16, as PowerShell writes it with >: convert it to UTF-8 first%s", name,
			command("iconv -f "+from+" -t UTF-8 %s > utf8.txt", name))
	}
	return nil
}

// CheckEmpty returns an error for a file without any text.
func CheckEmpty(name string, text []byte) error {
	if len(bytes.TrimSpace(bytes.TrimPrefix(text, []byte(UTF8Mark)))) > 0 {
		return nil
	}
	return fmt.Errorf("%s is empty: the command that should have written it may have failed: "+
		"repeat it, and read its error", name)
}

// CheckOne returns an error for a text that has several documents of YAML or JSON, since a reader of one ignores the
// others. A document of nothing but comments is none. The caller limits the text: a node of YAML takes up to 350 bytes.
func CheckOne(text []byte) error {
	if json.Valid(text) { // one value
		return nil
	}
	documents := yaml.NewDecoder(bytes.NewReader(text))
	for n := 0; n < 2; {
		document := &yaml.Node{}
		switch err := documents.Decode(document); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && n == 0:
			return err
		case err != nil:
			return errSeveral
		case len(document.Content) > 0 && document.Content[0].Tag != "!!null":
			n++
		}
	}
	return errSeveral
}

var errSeveral = errors.New("it has several documents, of which only the first would be read: give each its own file")

// command returns the command for a file, none for a stream.
func command(template, name string) string {
	if name == "stdin" || name == "-" {
		return ""
	}
	return ": " + fmt.Sprintf(template, quote(name))
}

// marked is the encoding of UTF-16 that begins with a mark, as iconv knows it.
const marked = "UTF-16"

// encoding returns the name by which iconv knows the UTF-16 of a head, "" for another text. Without a mark UTF-16 of
// ASCII has a zero beside each of the first characters.
func encoding(head []byte) string {
	if bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff")) {
		return marked
	}
	if len(head) < 4 {
		return ""
	}
	switch first := [4]bool{head[0] == 0, head[1] == 0, head[2] == 0, head[3] == 0}; first {
	case [4]bool{false, true, false, true}:
		return "UTF-16LE"
	case [4]bool{true, false, true, false}:
		return "UTF-16BE"
	}
	return ""
}

var plain = regexp.MustCompile(`^[A-Za-z0-9/._][A-Za-z0-9/._-]*$`)

// quote quotes a path for a shell.
func quote(name string) string {
	if plain.MatchString(name) {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}
