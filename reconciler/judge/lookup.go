package judge

import (
	"encoding/binary"
	"hash/maphash"
	"iter"
	"math/bits"
	"net/netip"
	"slices"
)

// lookup leads from the hash of a key to numbers: several where a key, or by chance a hash, is shared, so that
// whoever asks compares the keys.
type lookup struct {
	first map[uint64]uint32
	more  map[uint64][]uint32 // of what is shared
}

// newLookup has room for n numbers.
func newLookup(n int) lookup {
	return lookup{first: make(map[uint64]uint32, n), more: map[uint64][]uint32{}}
}

// add reports whether another number has the same hash.
func (l *lookup) add(hash uint64, number uint32) (shared bool) {
	if l.first == nil {
		*l = newLookup(0)
	}
	if _, shared = l.first[hash]; shared {
		l.more[hash] = append(l.more[hash], number)
	} else {
		l.first[hash] = number
	}
	return shared
}

// removeFrom takes all numbers from first up to end out that were added with one of these hashes.
func (l *lookup) removeFrom(first, end uint32, hashes ...uint64) {
	for _, hash := range sortedUnique(hashes) {
		left := slices.DeleteFunc(slices.Collect(l.each(hash)), func(n uint32) bool { return n >= first && n < end })
		delete(l.first, hash)
		delete(l.more, hash)
		if len(left) > 0 {
			l.first[hash] = left[0]
		}
		if len(left) > 1 {
			l.more[hash] = left[1:]
		}
	}
}

// remove takes a number that was added with this hash out again.
func (l *lookup) remove(hash uint64, number uint32) { l.removeFrom(number, number+1, hash) }

// each goes through the numbers that were added with a hash.
func (l *lookup) each(hash uint64) iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		number, there := l.first[hash]
		if !there || !yield(number) {
			return
		}
		for _, number := range l.more[hash] {
			if !yield(number) {
				return
			}
		}
	}
}

// all are the numbers that were added with a hash, each once.
func (l *lookup) all(hash uint64) []uint32 { return sortedUnique(slices.Collect(l.each(hash))) }

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
