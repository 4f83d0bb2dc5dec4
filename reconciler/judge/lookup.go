package judge

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"net/netip"
	"slices"
)

// lookup leads from the hash of a key to numbers; several of them where a key,
// or by chance a hash, is shared, so that whoever asks compares the keys. Half
// of the hash stands beside each number: what is not meant is passed over
// without touching the object behind it.
type lookup struct {
	slots   []slot              // open addressing, linear probing
	used    int                 // slots that are or were in use
	removed int                 // those of them that are not any more
	crowded map[uint32][]uint32 // the numbers of a tag that very many share
}

type slot struct {
	tag    uint32
	number uint32 // plus firstNumber
}

const (
	empty       = 0
	tombstone   = 1
	firstNumber = 2
	// crowd is from how many equal tags on they go into a list of their own: a
	// thousand carriers of one address must not cost a million steps.
	crowd = 32
)

// newLookup has room for n numbers.
func newLookup(n int) lookup { return lookup{slots: make([]slot, n+n/4+8)} }

func (l *lookup) home(tag uint32) int { return int(uint64(tag) * uint64(len(l.slots)) >> 32) }

func (l *lookup) after(at int) int {
	if at++; at < len(l.slots) {
		return at
	}
	return 0
}

// add reports whether another number has the same tag.
func (l *lookup) add(hash uint64, number uint32) (shared bool) {
	if l.used+l.used/8 >= len(l.slots)-4 {
		l.rebuild()
	}
	tag, equal, free := uint32(hash>>32), 0, -1
	for at := l.home(tag); ; at = l.after(at) {
		s := &l.slots[at]
		switch {
		case s.number == empty && free >= 0: // else what comes and goes would fill the table
			l.slots[free] = slot{tag, number + firstNumber}
			l.removed--
			return equal > 0
		case s.number == empty:
			*s = slot{tag, number + firstNumber}
			l.used++
			return equal > 0
		case s.number == tombstone && free < 0:
			free = at
			continue
		case s.number == tombstone || s.tag != tag:
			continue
		}
		if equal++; equal == crowd {
			if l.crowded == nil {
				l.crowded = map[uint32][]uint32{}
			}
			l.crowded[tag] = append(l.crowded[tag], number)
			return true
		}
	}
}

// rebuild makes room, and forgets what was removed.
func (l *lookup) rebuild() {
	old := l.slots
	*l = lookup{slots: make([]slot, 2*(l.used-l.removed)+16), crowded: l.crowded}
	for _, s := range old {
		if s.number < firstNumber {
			continue
		}
		at := l.home(s.tag)
		for l.slots[at].number != empty {
			at = l.after(at)
		}
		l.slots[at] = s
		l.used++
	}
}

// remove takes a number that was added with this hash out again.
func (l *lookup) remove(hash uint64, number uint32) {
	tag := uint32(hash >> 32)
	for at := l.home(tag); len(l.slots) > 0 && l.slots[at].number != empty; at = l.after(at) {
		if l.slots[at] == (slot{tag, number + firstNumber}) {
			l.slots[at].number = tombstone
			l.removed++
			return
		}
	}
	if i := slices.Index(l.crowded[tag], number); i >= 0 {
		l.crowded[tag] = slices.Delete(l.crowded[tag], i, i+1)
	}
}

// removeFrom takes all numbers from first up to end out that were added with one of these
// hashes, at the cost of what was added with them: very many may share one.
func (l *lookup) removeFrom(first, end uint32, hashes []uint64) {
	for _, hash := range sortedUnique(hashes) {
		tag := uint32(hash >> 32)
		for at := l.home(tag); len(l.slots) > 0 && l.slots[at].number != empty; at = l.after(at) {
			if s := l.slots[at]; s.tag == tag && s.number >= first+firstNumber && s.number < end+firstNumber {
				l.slots[at].number = tombstone
				l.removed++
			}
		}
		if crowd := l.crowded[tag]; len(crowd) > 0 {
			l.crowded[tag] = slices.DeleteFunc(crowd, func(n uint32) bool { return n >= first && n < end })
		}
	}
}

// find begins to go through the numbers that were added with a hash.
func (l *lookup) find(hash uint64) cursor {
	tag := uint32(hash >> 32)
	return cursor{l: l, tag: tag, at: l.home(tag)}
}

type cursor struct {
	l    *lookup
	tag  uint32
	at   int
	more int // how many of the crowded ones were told
}

func (c *cursor) next() (number uint32, ok bool) {
	slots := c.l.slots
	for len(slots) > 0 && c.more == 0 {
		s := slots[c.at]
		if s.number == empty {
			break
		}
		if c.at++; c.at == len(slots) {
			c.at = 0
		}
		if s.tag == c.tag && s.number >= firstNumber {
			return s.number - firstNumber, true
		}
	}
	if c.l.crowded == nil || c.more == len(c.l.crowded[c.tag]) {
		return 0, false
	}
	c.more++
	return c.l.crowded[c.tag][c.more-1], true
}

// all are the numbers that were added with a hash, each once.
func (l *lookup) all(hash uint64) []uint32 {
	var found []uint32
	for c := l.find(hash); ; {
		number, ok := c.next()
		if !ok {
			return sortedUnique(found)
		}
		found = append(found, number)
	}
}

// hasher hashes what is looked up. Its seed is its own, so that nobody can make
// names or addresses that are slow to look up.
type hasher struct {
	seed maphash.Seed
	salt uint64
}

func newHasher() hasher {
	h := hasher{seed: maphash.MakeSeed()}
	h.salt = maphash.String(h.seed, "salt")
	return h
}

func (h *hasher) text(s string) uint64 { return maphash.String(h.seed, s) }

func (h *hasher) name(namespace, name string) uint64 {
	return fold(maphash.String(h.seed, name)^h.salt, maphash.String(h.seed, namespace)|1)
}

func (h *hasher) address(a netip.Addr) uint64 {
	b := a.As16()
	return fold(binary.LittleEndian.Uint64(b[8:])^h.salt, fold(binary.LittleEndian.Uint64(b[:8])^h.salt, h.salt|1)|1)
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
