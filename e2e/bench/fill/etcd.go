package fill

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// Etcd calls an etcd, as harness.ControlPlane's AskEtcd does.
type Etcd func(ctx context.Context, call string, ask, answer any) error

// A Put is an object as it is stored.
type Put struct {
	Key   string
	Value []byte
}

// etcd accepts 128 operations in a transaction, of 1.5 MiB together.
const (
	mostPuts  = 128
	mostBytes = 1 << 20
	writers   = 4
)

// Write makes all puts that the sequence yields, in any order.
func (e Etcd) Write(ctx context.Context, puts func(yield func(Put) bool)) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(writers)
	var some []Put
	size := 0
	flush := func() {
		if batch := some; len(batch) > 0 {
			g.Go(func() error { return e.transact(ctx, batch) })
		}
		some, size = nil, 0
	}
	for p := range puts {
		if len(some) == mostPuts || size+len(p.Value) > mostBytes {
			flush()
		}
		some, size = append(some, p), size+len(p.Value)
		if ctx.Err() != nil {
			break
		}
	}
	flush()
	return g.Wait()
}

func (e Etcd) transact(ctx context.Context, puts []Put) error {
	type put struct {
		Key   []byte `json:"key"`
		Value []byte `json:"value"`
	}
	type operation struct {
		RequestPut put `json:"requestPut"`
	}
	var transaction struct {
		Success []operation `json:"success"`
	}
	for _, p := range puts {
		transaction.Success = append(transaction.Success, operation{put{[]byte(p.Key), p.Value}})
	}
	return e(ctx, "kv/txn", transaction, &struct{}{})
}

// Clear deletes everything below a key.
func (e Etcd) Clear(ctx context.Context, prefix string) error {
	end := []byte(prefix)
	end[len(end)-1]++
	return e(ctx, "kv/deleterange", map[string][]byte{"key": []byte(prefix), "range_end": end}, &struct{}{})
}
