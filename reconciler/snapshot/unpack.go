package snapshot

import (
	"compress/gzip"
	"fmt"
	"io"
)

const (
	// unpackedFreely is how many bytes a compressed stream may unpack to however short it is.
	unpackedFreely = 256 << 20
	// maxRatio is how many bytes one of it may unpack to beyond that: lists of pods that are all
	// alike stay below a hundred, zeros come to a thousand.
	maxRatio = 200
)

// unpacking is a compressed stream as it is unpacked. It ends with an error where it unpacks
// to more than any export does.
type unpacking struct {
	name   string // for messages
	packed *counted
	*gzip.Reader
	freely, unpacked int64
}

func unpack(name string, r io.Reader) (*unpacking, error) {
	packed := &counted{Reader: r}
	unpacked, err := gzip.NewReader(packed)
	return &unpacking{name: name, packed: packed, Reader: unpacked, freely: unpackedFreely}, err
}

func (u *unpacking) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if u.unpacked += int64(n); u.unpacked > u.freely && u.unpacked > maxRatio*u.packed.read {
		return 0, fmt.Errorf("%s: %d bytes of it unpack to more than %d: %w", u.name, u.packed.read, u.unpacked, errTooLarge)
	}
	return n, err
}

// counted counts the bytes that are read.
type counted struct {
	io.Reader
	read int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += int64(n)
	return n, err
}
