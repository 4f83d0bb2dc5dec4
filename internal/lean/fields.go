package lean

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field is a field to keep, with its number in protobuf and its name in JSON. Of are the fields to keep of its
// value, or of each element of a list; nil keeps everything.
type Field struct {
	Number protowire.Number
	Name   string
	Of     Fields
}

// Fields are the fields to keep of an object.
type Fields []Field

// F returns a Field.
func F(number protowire.Number, name string, of ...Field) Field {
	return Field{Number: number, Name: name, Of: of}
}

// AppendProto appends the kept fields of a protobuf message to dst, in their order. It fails if the message is not
// protobuf.
func (f Fields) AppendProto(dst, message []byte) ([]byte, error) {
	err := eachField(message, func(number protowire.Number, field, value []byte) (err error) {
		at := f.find(number)
		switch {
		case at < 0:
		case f[at].Of == nil || value == nil:
			dst = append(dst, field...)
		default:
			dst = protowire.AppendTag(dst, number, protowire.BytesType)
			start := len(dst)
			if dst, err = f[at].Of.AppendProto(dst, value); err == nil {
				dst = slices.Insert(dst, start, protowire.AppendVarint(nil, uint64(len(dst)-start))...)
			}
		}
		return err
	})
	return dst, err
}

// find returns the index of the field with a number, -1 for none.
func (f Fields) find(number protowire.Number) int {
	for i := range f { // slices.IndexFunc would copy each Field
		if f[i].Number == number {
			return i
		}
	}
	return -1
}

// eachField calls do for each field of a message; value is the content of a field of bytes. It fails if the message
// is not protobuf.
func eachField(message []byte, do func(number protowire.Number, field, value []byte) error) error {
	for len(message) > 0 {
		number, kind, tag := protowire.ConsumeTag(message)
		n := tag
		var value []byte
		if tag >= 0 && kind == protowire.BytesType {
			value, n = protowire.ConsumeBytes(message[tag:])
		} else if tag >= 0 {
			n = protowire.ConsumeFieldValue(number, kind, message[tag:])
		}
		if n < 0 {
			return fmt.Errorf("not protobuf: %w", protowire.ParseError(n))
		}
		if err := do(number, message[:tag+n], value); err != nil {
			return err
		}
		message = message[tag+n:]
	}
	return nil
}

// AppendJSON appends the kept fields of a JSON value to dst. The Reader keeps the first error.
func (f Fields) AppendJSON(dst []byte, r *Reader) []byte {
	switch kind := r.Kind(); {
	case f != nil && kind == '{':
		dst = append(dst, '{')
		r.Object(func(name []byte) {
			if at := slices.IndexFunc(f, func(kept Field) bool { return kept.Name == string(name) }); at >= 0 {
				dst = append(strconv.AppendQuote(dst, f[at].Name), ':')
				dst = append(f[at].Of.AppendJSON(dst, r), ',')
			}
		})
		return append(bytes.TrimSuffix(dst, []byte(",")), '}')
	case f != nil && kind == '[':
		dst = append(dst, '[')
		r.Array(func() { dst = append(f.AppendJSON(dst, r), ',') })
		return append(bytes.TrimSuffix(dst, []byte(",")), ']')
	}
	return append(dst, r.Raw()...)
}
