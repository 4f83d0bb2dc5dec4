package snapshot

import (
	"errors"
	"fmt"
)

// A snapshot may come from anybody: these limits bound the memory that reading it takes. 10,000 pods with all their
// fields take 155 MB of YAML with 10.5 million nodes, and 345 MB of JSON; 35 MB of it are kept.
const (
	// maxFile is how large a file may be in bytes, unpacked.
	maxFile = 512 << 20
	// maxNodes is how many nodes of YAML may be in memory. The worst take 350 bytes each.
	maxNodes = 8_000_000
	// itemsAtOnce is how many items of a List are parsed at once; each has its share of maxNodes.
	itemsAtOnce = 8
	// maxObjects is how many objects a file may have, of any kind.
	maxObjects = 1_000_000
	// maxObject is how long the JSON of an object that is read may be, in bytes: API servers accept 3 MiB.
	maxObject = 4 << 20
	// maxKept is how many bytes of all objects may be kept, with perObject for each.
	maxKept, perObject = 512 << 20, 256
	// maxArchive is how many bytes an archive may unpack to, read or not.
	maxArchive = 32 << 30
)

var errTooLarge = errors.New("is too large to be read")

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
	if s.kept += perObject + len(o.path) + len(o.ref()) + size; s.kept <= maxKept && size <= maxObject {
		return nil
	}
	return fmt.Errorf("%s %w: %s %s/%s has %d bytes (an object may have %d, all together %d): "+
		"leave out what is not of this cluster", o.path, errTooLarge, o.kind, o.namespace, o.name, size, maxObject, maxKept)
}
