package snapshot

import (
	"errors"
	"fmt"
)

// These limits bound the memory for reading a snapshot, which anybody may have written. 10,000 pods with all their
// fields have 155 MB of YAML with 10.5 million nodes, or 345 MB of JSON. 35 MB of it are kept.
const (
	// maxFile limits the size of a file in bytes, unpacked.
	maxFile = 512 << 20
	// maxNodes limits the nodes of YAML in memory. A node takes up to 350 bytes.
	maxNodes = 8_000_000
	// itemsAtOnce is the number of items of a List that are parsed concurrently. Each has its share of maxNodes.
	itemsAtOnce = 8
	// maxObjects limits the objects of a file, of any kind.
	maxObjects = 1_000_000
	// maxObject limits the JSON of an object that is judged, in bytes. API servers accept 3 MiB.
	maxObject = 4 << 20
	// maxValues limits the values in an object that is judged, and maxValuesOfPod those that are read of a pod or a Node.
	// A value of three bytes takes up to a kilobyte. A pool of 10,000 entries has 100,000 values with its managedFields.
	maxValues, maxValuesOfPod = 500_000, 50_000
	// maxKept limits the bytes of all objects together, with perObject for each.
	maxKept, perObject = 512 << 20, 256
	// maxArchive limits the unpacked size of an archive in bytes.
	maxArchive = 32 << 30
)

var errTooLarge = errors.New("is too large to be read")

// yamlNodes returns an upper bound of the nodes of a text. A node follows a line break or an indicator, and those in
// scalars count, too. Real objects have two thirds of the bound.
func yamlNodes(text []byte) int {
	n := 1
	for i, c := range text {
		switch c {
		case '\n', '\r', 0x85, 0xa8, 0xa9: // the last three end line breaks of Unicode
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

func (s *Snapshot) charge(o *object) error {
	size := len(o.text)
	if s.kept += perObject + len(o.path) + len(o.ref()) + size; s.kept <= maxKept && size <= maxObject {
		return nil
	}
	if size > maxObject {
		return fmt.Errorf("%s %w: %s has %d bytes (an object may have %d, and an API server accepts less): export it again "+
			"with 'kubectl get -o yaml'", o.path, errTooLarge, o.ref(), size, maxObject)
	}
	return fmt.Errorf("%s %w: the objects until %s have %d bytes together: remove those of other clusters, and other "+
		"copies of the same objects", o.path, errTooLarge, o.ref(), maxKept)
}
