package apply

import (
	"fmt"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// named are changes, and the names by which a test compares them.
type named map[*Release]string

func (n named) add(names string) (changes []*Release) {
	for _, name := range names {
		c := &Release{Item: &judge.Item{}}
		n[c] = string(name)
		changes = append(changes, c)
	}
	return changes
}

func (n named) of(changes []*Release) (text string) {
	for _, c := range changes {
		text += n[c]
	}
	return text
}

// take removes the next batch, which must be this one after this pause.
func take(t *testing.T, b *backlog[*Release], n named, now time.Time, want string, after time.Duration) []*Release {
	t.Helper()
	batch, pause := b.take(now)
	if got := n.of(batch); got != want || pause != after {
		t.Errorf("got %s after %s, want %s after %s", got, pause, want, after)
	}
	return batch
}

// The order in which holds take changes: what had no time first, what failed after a pause, what is half-done alone.
func TestBacklog_Order(t *testing.T) {
	n, now := named{}, time.Now()
	b := newBacklog(n.add("abcdef"))
	b.size = 4
	batch := take(t, b, n, now, "abcd", 0)
	b.retry(batch[0], now)
	b.putFirst(batch[2:]) // b is done
	take(t, b, n, now, "cdef", 0)
	take(t, b, n, now, "a", firstPause)

	b.waiting = n.add("ghij")
	b.waiting[1].state, b.waiting[3].state = ReservationDeleted, PatchSent
	failed := b.waiting[3]
	failed.retryAt = now.Add(time.Second)
	take(t, b, n, now, "h", 0)
	take(t, b, n, now, "gi", 0)
	take(t, b, n, now, "j", time.Second)

	b.waiting = n.add("kl") // both pauses are over
	b.waiting = append(b.waiting, failed)
	take(t, b, n, now.Add(time.Minute), "j", 0)
	take(t, b, n, now.Add(time.Minute), "kl", 0)
}

// A change is tried again after pauses that double, and is given up after six failures.
func TestBacklog_Retry(t *testing.T) {
	n, now := named{}, time.Now()
	b := newBacklog(n.add("a"))
	for try, pause := range []time.Duration{0, 200, 400, 800, 1600, 3200} {
		c := take(t, b, n, now, "a", pause*time.Millisecond)[0]
		now = now.Add(pause * time.Millisecond)
		if isBack := b.retry(c, now); isBack != (try < 5) || b.tries(c) != try+1 {
			t.Errorf("try %d: it is put back: %v, after %d tries", try, isBack, b.tries(c))
		}
	}
	if len(b.waiting) > 0 {
		t.Error("it waits after it was given up")
	}
}

// A hold that was too short halves the next one, which tries at least what it had time for. One that has ended all of
// its changes doubles it.
func TestBacklog_Resize(t *testing.T) {
	for _, c := range []struct {
		taken, moved         int
		isSpent, hasEndedAll bool
		want                 int
	}{
		{1000, 1000, false, true, 2000},
		{10, 10, false, true, 2000},
		{1000, 1000, false, false, 1000},
		{1000, 0, true, false, 500},
		{1000, 800, true, false, 800},
		{30, 0, true, false, 15},
		{1, 0, true, false, 1},
	} {
		b := newBacklog[*Release](nil)
		b.resize(c.taken, c.moved, c.isSpent, c.hasEndedAll)
		if b.size != c.want {
			t.Errorf("%+v: got %d", c, b.size)
		}
	}
	b := newBacklog[*Release](nil)
	for range 3 {
		b.resize(1, 1, false, true)
	}
	if b.size != maxBatch {
		t.Errorf("it grows to %d", b.size)
	}
}

// A hold patches pools of at most 20,000 entries together, and at least one pool.
func TestCountAffordable(t *testing.T) {
	var queue []*Release
	for i, entries := range []int{12_000, 8_000, 1, 30_000, 1} {
		pool := &ippool.Pool{Allocations: make([]ippool.Allocation, entries)}
		pool.Name = fmt.Sprint("pool-", i)
		for range 10 {
			queue = append(queue, &Release{Item: &judge.Item{Pool: pool}})
		}
	}
	queue = append(queue, &Release{Item: &judge.Item{}}) // a reservation alone
	for _, c := range []struct{ from, want int }{{0, 20}, {10, 20}, {20, 10}, {30, 10}, {40, 11}, {45, 6}} {
		if got := countAffordable(queue[c.from:]); got != c.want {
			t.Errorf("from %d: got %d, want %d", c.from, got, c.want)
		}
	}
}
