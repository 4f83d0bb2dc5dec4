package snapshot

import (
	"compress/gzip"
	"fmt"
	"io"
)

const (
	// unpackedFreely is how many bytes of YAML and JSON a compressed stream may unpack to however short it is.
	unpackedFreely = 32 << 20
	// maxRatio is how many bytes one of it may unpack to beyond that: real objects come to twenty, zeros to a thousand.
	maxRatio = 200
)

// unpacking is a compressed stream as it is unpacked. It ends with an error where it unpacks
// to more YAML and JSON than any export does. What is skipped takes no memory, and may be more.
type unpacking struct {
	name   string // for messages
	packed *tail
	*gzip.Reader
	freely, parsed int64
	skips          bool // what is read now is skipped
}

func unpack(name string, r io.Reader) (*unpacking, error) {
	packed := &tail{r: r}
	unpacked, err := gzip.NewReader(packed)
	return &unpacking{name: name, packed: packed, Reader: unpacked, freely: unpackedFreely}, err
}

func (u *unpacking) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if u.skips {
		return n, err
	}
	if u.parsed += int64(n); u.parsed > max(u.freely, maxRatio*u.packed.read) {
		return 0, fmt.Errorf("%s %w: %d bytes of it unpack to more than %d of YAML and JSON: "+
			"unpack it, and give the folder with the objects alone", u.name, errTooLarge, u.packed.read, u.parsed-1)
	}
	return n, err
}
