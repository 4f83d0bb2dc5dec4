package snapshot

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// A snapshot may come from anybody: these limits bound the memory that reading it takes. 10,000 pods with all their
// fields take 155 MB of YAML with 10.5 million nodes, and 345 MB of JSON; 35 MB of it are kept.
const (
	// maxFile is how large a file may be in bytes, unpacked.
	maxFile = 1 << 30
	// maxNodes is how many nodes of YAML may be in memory. The worst take 350 bytes each.
	maxNodes = 8_000_000
	// itemsAtOnce is how many items of a List are parsed at once; each has its share of maxNodes.
	itemsAtOnce = 8
	// maxAliased is how many bytes the aliases of a file may stand for.
	maxAliased = 4 << 20
	// maxObjects is how many objects a file may have, of any kind.
	maxObjects = 1_000_000
	// maxObject is how long the JSON of an object that is read may be, in bytes: API servers accept 3 MiB.
	maxObject = 4 << 20
	// maxKept is how many bytes of all objects may be kept, with perObject for each.
	maxKept, perObject = 512 << 20, 256
	// unpackedFreely is how many bytes of YAML and JSON a compressed stream may unpack to however short it is.
	unpackedFreely = 32 << 20
	// maxRatio is how many bytes one of it may unpack to beyond that: real objects come to twenty, zeros to a thousand.
	maxRatio = 200
	// maxArchive is how many bytes an archive may unpack to, read or not; maxNames bounds the names of its entries
	// in bytes, and 64 for each.
	maxArchive, maxNames = 32 << 30, 256 << 20
)

var errTooLarge = errors.New("is too large to be read")

// readAtMost reads all, up to maxFile; size is how much that probably is.
func readAtMost(r io.Reader, path string, size int64) ([]byte, error) {
	var text bytes.Buffer
	text.Grow(int(min(max(size, 0), 64<<20)) + bytes.MinRead)
	n, err := text.ReadFrom(io.LimitReader(r, maxFile+1))
	if err == nil && n > maxFile {
		err = fmt.Errorf("%s %w: it has more than %d bytes: export its objects in several files", path, errTooLarge, maxFile)
	}
	return text.Bytes(), err
}

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

// yamlNodes is an upper bound of the nodes of a text. A node follows a line break or an indicator; those in scalars
// count, too. Real objects have two thirds of it.
func yamlNodes(text []byte) int {
	n := 1
	for i, c := range text {
		switch c {
		case '\n', '\r', 0x85, 0xa8, 0xa9: // the last three end the line breaks of Unicode
			n++
		case '-', ':', '?':
			if i+1 == len(text) || text[i+1] <= ' ' || text[i+1] >= 0x80 {
				n++
				if c == '?' { // a mapping without a value
					n++
				}
			}
		case '[', '{', ',': // an item may be a mapping with one key
			n += 3
		}
	}
	return n
}

// charge counts an object that is taken in.
func (s *Snapshot) charge(o *object) error {
	size := len(o.text)
	if s.kept += perObject + len(o.ref()) + size; s.kept <= maxKept && size <= maxObject {
		return nil
	}
	return fmt.Errorf("read snapshot: %s %w: %s %s/%s has %d bytes (an object may have %d, all together %d): "+
		"leave out what is not of this cluster", o.path, errTooLarge, o.kind, o.namespace, o.name, size, maxObject, maxKept)
}
