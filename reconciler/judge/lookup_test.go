package judge

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestALookupHasWhatWasAddedAndNotRemoved(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		var l lookup
		if seed%2 == 0 {
			l = newLookup(int(seed))
		}
		want := map[uint64][]uint32{}
		for number := range uint32(400) {
			hash := uint64(random.IntN(40)) << 58 // few, and beside each other
			if random.IntN(3) == 0 {
				hash = random.Uint64()
			}
			l.add(hash, number)
			want[hash] = append(want[hash], number)
			if some := want[uint64(random.IntN(40))<<58]; len(some) > 0 && random.IntN(2) == 0 {
				for hash, numbers := range want {
					if len(numbers) > 0 {
						l.remove(hash, numbers[0])
						want[hash] = numbers[1:]
						break
					}
				}
			}
		}
		for hash, numbers := range want {
			if got := l.all(hash); !slices.Equal(got, slices.Sorted(slices.Values(numbers))) {
				t.Fatalf("seed %d: under %x are %v, want %v", seed, hash, got, numbers)
			}
		}
	}
}

// A node's address stands in the network-status of every pod on the host network.
func TestManyCarriersOfOneAddressAreFound(t *testing.T) {
	l := newLookup(10)
	for number := range uint32(10_000) {
		l.add(1<<40, number)
	}
	if n := len(l.all(1 << 40)); n != 10_000 {
		t.Errorf("found %d", n)
	}
}
