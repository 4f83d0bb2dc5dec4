// Package protofields leaves out of a protobuf message the fields that nobody
// reads, before a decoder builds values of them: of a pod ten in eleven bytes
// are managedFields, volumes, environments and probes.
package protofields

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Fields are those of a message that are kept, by number: nil keeps a field as a
// whole, else it is a message, and what its Fields say is kept of it.
type Fields map[protowire.Number]Fields

// Append appends what is kept of a message to dst, in the order in which it
// stands there. It is an error if the message is not protobuf.
func (f Fields) Append(dst, message []byte) ([]byte, error) {
	for len(message) > 0 {
		number, kind, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return nil, fmt.Errorf("not protobuf: %w", protowire.ParseError(tag))
		}
		n := protowire.ConsumeFieldValue(number, kind, message[tag:])
		if n < 0 {
			return nil, fmt.Errorf("not protobuf: field %d: %w", number, protowire.ParseError(n))
		}
		field := message[:tag+n]
		message = message[tag+n:]
		inner, kept := f[number]
		switch {
		case !kept:
		case inner == nil || kind != protowire.BytesType:
			dst = append(dst, field...)
		default:
			value, _ := protowire.ConsumeBytes(field[tag:])
			dst = append(dst, field[:tag]...)
			start := len(dst)
			var err error
			if dst, err = inner.Append(dst, value); err != nil {
				return nil, err
			}
			var length [10]byte
			dst = slices.Insert(dst, start, protowire.AppendVarint(length[:0], uint64(len(dst)-start))...)
		}
	}
	return dst, nil
}

// Each calls field for the fields of a message that hold bytes: texts and
// messages. It is an error if the message is not protobuf.
func Each(message []byte, field func(number protowire.Number, value []byte) error) error {
	for len(message) > 0 {
		number, kind, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return fmt.Errorf("not protobuf: %w", protowire.ParseError(tag))
		}
		n := protowire.ConsumeFieldValue(number, kind, message[tag:])
		if n < 0 {
			return fmt.Errorf("not protobuf: field %d: %w", number, protowire.ParseError(n))
		}
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message[tag:])
			if err := field(number, value); err != nil {
				return err
			}
		}
		message = message[tag+n:]
	}
	return nil
}
