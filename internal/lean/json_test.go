package lean

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// build decodes a text like encoding/json, with json.Number.
func build(r *Reader) any {
	var out any
	text := r.Raw()
	if text == nil {
		return nil
	}
	switch again := New(text); text[0] {
	case '{':
		m := map[string]any{}
		again.Object(func(name []byte) { key := string(name); m[key] = build(again) })
		out = m
	case '[':
		l := []any{}
		again.Array(func() { l = append(l, build(again)) })
		out = l
	case '"':
		s, _ := again.String()
		out = string(s)
	case 'n':
		again.Skip()
	case 't', 'f':
		out = text[0] == 't'
	default:
		out = json.Number(text)
	}
	return out
}

func compare(t *testing.T, text []byte) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var want any
	valid := json.Valid(text)
	if valid {
		if err := dec.Decode(&want); err != nil {
			t.Fatal(err)
		}
	}
	skip := New(text)
	skip.Skip()
	if got := skip.End() == nil; got != valid {
		t.Fatalf("%q: valid %v, want %v (%v)", text, got, valid, skip.End())
	}
	r := New(text)
	got := build(r)
	if (r.End() == nil) != valid {
		t.Fatalf("%q: %v", text, r.End())
	}
	if valid && !reflect.DeepEqual(got, want) {
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
	`[1e5,-0.1]`,
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

// FuzzAppendWithoutManagedFields compares the result with encoding/json.
func FuzzAppendWithoutManagedFields(f *testing.F) {
	for _, text := range append(texts, `{"metadata":{"managedFields":[{"a":1}],"name":"a"},"spec":{"managedFields":[]}}`,
		` {"metadata" : { "managedFields" : {} , "\u006danagedFields":5}}`,
		`{"metadata":[],"metadata":{"managedFields":[1],"managedFields":[2]}}`, `{"metadata":{"managedFields":[}}`) {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		left, err := AppendWithoutManagedFields(nil, text)
		var got, want any
		if json.Unmarshal(text, &want) != nil {
			if err == nil && !json.Valid(text) {
				t.Fatalf("%q is not JSON", text)
			}
			return
		}
		if err != nil || json.Unmarshal(left, &got) != nil {
			t.Fatalf("%q is left of %q: %v", left, text, err)
		}
		for _, v := range []any{got, want} {
			o, _ := v.(map[string]any)
			if metadata, ok := o["metadata"].(map[string]any); ok {
				if reflect.DeepEqual(v, got) && metadata["managedFields"] != nil {
					t.Fatalf("%q keeps them", left)
				}
				delete(metadata, "managedFields")
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q is left of %q", left, text)
		}
	})
}
