package lean

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func compare(t *testing.T, text []byte) {
	var want any
	err := json.Unmarshal(text, &want)
	valid := json.Valid(text)
	skip := New(text)
	skip.Skip()
	if got := skip.End() == nil; got != valid {
		t.Fatalf("%q: valid %v, want %v (%v)", text, got, valid, skip.End())
	}
	r := New(text)
	got := r.Value()
	if (r.End() == nil) != (err == nil) {
		t.Fatalf("%q: %v, want %v", text, r.End(), err)
	}
	if err == nil && !reflect.DeepEqual(got, want) {
		t.Fatalf("%q: got %#v, want %#v", text, got, want)
	}
}

var texts = []string{
	``, ` `, `null`, ` true `, `false`, `nul`, `nullx`, `0`, `-0`, `-`, `01`, `1.`, `.5`, `1.5e+7`, `1e`, `1E5`,
	`-1.0e-0`, `1 2`,
	`""`, `"`, `"a`, `"\u00e9"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00x"`, `"\u12"`, `"\x"`, "\"\t\"", "\"\xff\"",
	"\"a\xe9b\"", `"é"`, `"\"\\\/\b\f\n\r\t"`,
	`{}`, `{ }`, `[]`, `[ ]`, `[1]`, `[1,]`, `[,1]`, `[1 2]`, `{"a":1}`, `{"a":1,}`, `{"a" : [ {} , null ] , "b":{}}`,
	`{a:1}`, `{"a"}`, `{"a":}`, `{1:2}`, `{"a":1 "b":2}`,
	`{"a":1,"a":2}`, `{"a":{"b":1},"a":{"c":2}}`, `[[[]]`, `[]]`, `{"a":[}`, `{"\u0061":1}`, "\ufeff{}", `[tru]`,
	`[1e5,-0.1]`, `[1e999]`,
}

func TestReader_SameAsEncodingJSON(t *testing.T) {
	for _, text := range texts {
		compare(t, []byte(text))
	}
	for _, depth := range []int{9999, 10000, 10001} {
		text := []byte(strings.Repeat("[", depth) + strings.Repeat("]", depth))
		r := New(text)
		if r.Skip(); (r.End() == nil) != json.Valid(text) {
			t.Errorf("nested %d deep: %v", depth, r.End())
		}
	}
}

// kubectl indents by four spaces a level, so most of its output is space.
func TestReader_Space(t *testing.T) {
	for n := range 30 {
		for _, odd := range []string{"", "\n", "\t", "\r\n", "\x00", "\v", "\u00a0", "x"} {
			space := strings.Repeat(" ", n) + odd + strings.Repeat(" ", 29-n)
			compare(t, []byte(space))
			compare(t, []byte(space+`{`+space+`"a"`+space+`:`+space+`[`+space+`1`+space+`]`+space+`}`+space))
		}
	}
}

func FuzzReader(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(compare)
}

func TestReader_SkipsUnreadMembers(t *testing.T) {
	r := New([]byte(`{"skipped": {"deep": [1, {"a": "]"}]}, "read": "x", "other": 5}`))
	var names []string
	var read string
	ok := r.Object(func(name []byte) {
		names = append(names, string(name))
		if string(name) == "read" {
			s, _ := r.String()
			read = string(s)
		}
	})
	if err := r.End(); !ok || err != nil || read != "x" || strings.Join(names, " ") != "skipped read other" {
		t.Errorf("%v, %v, %q, %q", ok, err, read, names)
	}
}

func TestReader_OtherTypes(t *testing.T) {
	for _, text := range []string{`[1,{}]`, `5`, `"x"`, `null`, `true`} {
		r := New([]byte(text))
		if r.Object(func([]byte) { t.Error("a member") }) || r.End() != nil {
			t.Errorf("%s: %v", text, r.End())
		}
	}
	r := New([]byte(`{}`))
	if _, ok := r.String(); ok || r.End() != nil {
		t.Error("an object is a string")
	}
}

func TestReader_StopsAtError(t *testing.T) {
	r := New([]byte(`{"a": x, "b": "c"}`))
	if r.Object(func(name []byte) {
		if string(name) == "b" {
			t.Error("read on")
		}
	}) || r.End() == nil {
		t.Error("no error")
	}
	if _, ok := r.String(); ok || r.Raw() != nil || r.Array(func() {}) {
		t.Error("a value after an error")
	}
}

func TestReader_Allocations(t *testing.T) {
	text := []byte(`{"managedFields": [{"fieldsV1": {"f:spec": {"f:allocations": {".": {}, "f:5": {"f:id": {}}}}}}], ` +
		`"name": "pool"}`)
	n := testing.AllocsPerRun(100, func() {
		r := New(text)
		r.Object(func([]byte) {})
	})
	if n > 0 {
		t.Errorf("%.0f allocations", n)
	}
}
