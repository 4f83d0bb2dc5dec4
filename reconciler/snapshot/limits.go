package snapshot

import (
	"errors"
	"fmt"
)

// A snapshot may come from anybody: these limits, those of archive.go and of unpack.go bound the memory that reading
// it takes. 10,000 pods with all their fields take 155 MB of YAML with 10.5 million nodes, and 345 MB of JSON; 35 MB of
// it are kept.
const (
	// maxFile is how large a file of an archive or a stream may be in bytes, unpacked.
	maxFile = 1 << 30
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
)

var errTooLarge = errors.New("is too large to be read")

// yamlNodes is how many nodes a text has at the most: each follows a line break or an indicator, of which those in
// scalars count, too. Real objects have two thirds of it.
func yamlNodes(text []byte) int {
	n := 1
	for i, c := range text {
		switch c {
		case '\n', '\r', 0x85, 0xa8, 0xa9: // the last three end the line breaks of Unicode
			n++
		case '-', ':', '?':
			if i+1 == len(text) || text[i+1] <= ' ' || text[i+1] >= 0x80 {
				n++
			}
		case '[', '{', ',': // an item may be a mapping with one key
			n += 3
		}
	}
	return n
}

// charge counts an object that is taken in.
func (f *Snapshot) charge(o *object) error {
	size := 0
	if _, read := groupOf(o.kind); read {
		size = len(o.text)
	}
	if f.kept += perObject + len(o.ref()) + size; f.kept <= maxKept && size <= maxObject {
		return nil
	}
	return fmt.Errorf("read snapshot: %s %w: %s %s/%s has %d bytes (an object may have %d, all together %d): "+
		"leave out what is not of this cluster", o.file.path, errTooLarge, o.kind, o.namespace, o.name, size, maxObject, maxKept)
}
