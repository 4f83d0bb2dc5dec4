package lean

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth limits the nesting of values, as in encoding/json.
const maxDepth = 10000

var errMalformed = errors.New("not JSON")

// Reader reads one JSON text. Object, Array and String each read one value and report whether it has that type.
// After an error they do nothing and return false; End returns the error.
type Reader struct {
	text  []byte
	at    int
	depth int
	err   error
}

// New returns a Reader of the text. Strings that it returns are part of the text.
func New(text []byte) *Reader { return &Reader{text: text} }

// Object calls member for each member in order, including repeated names. member reads the value; otherwise the
// value is skipped. name is valid until the value has been read.
func (r *Reader) Object(member func(name []byte)) bool {
	return r.composite('{', '}', func() {
		name, ok := r.String()
		if !ok {
			r.fail("a member has no name")
			return
		}
		if r.Kind() != ':' {
			r.fail("missing ':'")
			return
		}
		r.at++
		r.value(func() { member(name) })
	})
}

// Array calls element for each element, which reads it.
func (r *Reader) Array(element func()) bool {
	return r.composite('[', ']', func() { r.value(element) })
}

// value calls read, and skips the value if read did not read it.
func (r *Reader) value(read func()) {
	r.space()
	if before := r.at; r.err == nil {
		if read(); r.at == before {
			r.Skip()
		}
	}
}

func (r *Reader) composite(open, end byte, element func()) bool {
	if r.Kind() != open {
		r.Skip()
		return false
	}
	r.at++
	if r.depth++; r.depth > maxDepth {
		r.fail("nested too deeply")
		return false
	}
	for isFirst := true; r.err == nil; isFirst = false {
		switch c := r.Kind(); {
		case c == end:
			r.at++
			r.depth--
			return true
		case !isFirst && c != ',':
			r.fail("missing ',' or the end of the values")
			return false
		case !isFirst:
			r.at++
		}
		element()
	}
	return false
}

// String reads a string, which is valid as long as the text.
func (r *Reader) String() ([]byte, bool) {
	if r.Kind() != '"' {
		r.Skip()
		return nil, false
	}
	start := r.at
	plain := r.skipString()
	if r.err != nil {
		return nil, false
	}
	if plain {
		return r.text[start+1 : r.at-1], true
	}
	var s string
	if err := json.Unmarshal(r.text[start:r.at], &s); err != nil {
		r.fail(err.Error())
		return nil, false
	}
	return []byte(s), true
}

// Text reads a string, and returns "" for any other value.
func (r *Reader) Text() string {
	text, _ := r.String()
	return string(text)
}

// count reads a number of objects: 0 for null, and -1 for a value that is no such number.
func (r *Reader) count() int64 {
	text := string(r.Raw())
	if text == "null" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// Kind returns the first byte of the next value, 0 at the end or after an error.
func (r *Reader) Kind() byte {
	if r.space(); r.err != nil || r.at >= len(r.text) {
		return 0
	}
	return r.text[r.at]
}

// Raw reads any value and returns its text.
func (r *Reader) Raw() []byte {
	r.space()
	start := r.at
	if r.Skip(); r.err != nil {
		return nil
	}
	return r.text[start:r.at]
}

// Value reads any value into what encoding/json decodes it into.
func (r *Reader) Value() (v any) {
	if err := json.Unmarshal(r.Raw(), &v); err != nil {
		r.fail(err.Error())
	}
	return v
}

// Skip reads any value.
func (r *Reader) Skip() {
	switch r.Kind() {
	case '{':
		r.Object(func([]byte) {})
	case '[':
		r.Array(func() {})
	case '"':
		r.skipString()
	case 0:
		r.fail("missing value")
	default:
		r.scalar()
	}
}

// End returns the first error, also if there is text after the value.
func (r *Reader) End() error {
	if r.More() {
		r.fail("text after the value")
	}
	return r.err
}

// Err returns the first error.
func (r *Reader) Err() error { return r.err }

// More reports whether there is more text than spaces. A NUL byte is text.
func (r *Reader) More() bool {
	r.space()
	return r.err == nil && r.at < len(r.text)
}

func (r *Reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s at byte %d of %d", errMalformed, what, r.at, len(r.text))
	}
}

func (r *Reader) space() {
	for r.at < len(r.text) && strings.IndexByte(" \t\r\n", r.text[r.at]) >= 0 {
		r.at++
	}
}

// scalar reads a number, true, false or null.
func (r *Reader) scalar() {
	start := r.at
	for r.at < len(r.text) && strings.IndexByte(" \t\r\n,:]}[{\"", r.text[r.at]) < 0 {
		r.at++
	}
	if !json.Valid(r.text[start:r.at]) {
		r.at = start
		r.fail("invalid value")
	}
}

// skipString skips a string, and reports whether its text is its value: UTF-8 without escapes.
func (r *Reader) skipString() (plain bool) {
	start := r.at + 1
	escaped, ascii := false, true
	for i := start; i < len(r.text); i++ {
		switch c := r.text[i]; {
		case c == '"':
			r.at = i + 1
			if escaped && !json.Valid(r.text[start-1:r.at]) {
				r.at = start
				r.fail("invalid escape sequence")
			}
			return !escaped && (ascii || utf8.Valid(r.text[start:i]))
		case c == '\\':
			escaped = true
			i++
		case c < ' ':
			r.at = i
			r.fail("a control character in a string")
			return false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	r.fail("unterminated string")
	return false
}
