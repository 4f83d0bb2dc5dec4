package fill

import (
	"context"
	"time"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Fill writes everything. With reports the API must serve SandboxReports, and Vouch must renew the Leases that confirm
// them.
func (c *Content) Fill(ctx context.Context, etcd Etcd) error {
	return etcd.Write(ctx, func(yield func(Put) bool) {
		for node := range c.Nodes {
			n := c.Node(node)
			if !yield(put("/registry/minions/"+n.Name, n)) {
				return
			}
			if c.Reports && !yield(c.report(node)) {
				return
			}
		}
		for pool := range c.Pools {
			if !yield(c.network(pool)) {
				return
			}
		}
		if !c.whereabouts(yield, func(*Entry) bool { return true }) {
			return
		}
		for i := range c.Entries() {
			if e := c.Entry(i); !e.Stale && !yield(put("/registry/pods/"+e.Namespace+"/"+e.Name, c.Pod(i))) {
				return
			}
		}
	})
}

// Refill writes again what a run may have released, and removes whereabouts' Leases, so that the next run finds the
// same.
func (c *Content) Refill(ctx context.Context, etcd Etcd) error {
	for pool := range c.Pools { // one that existed before may be younger than the pool
		if err := etcd.Clear(ctx, "/registry/leases/"+namespace+"/"+PoolName(pool)); err != nil {
			return err
		}
	}
	if err := etcd.Clear(ctx, "/registry/leases/"+namespace+"/whereabouts"); err != nil {
		return err
	}
	return etcd.Write(ctx, func(yield func(Put) bool) {
		c.whereabouts(yield, func(e *Entry) bool { return e.Stale })
	})
}

// whereabouts yields all pools, and the reservations of selected entries.
func (c *Content) whereabouts(yield func(Put) bool, wanted func(*Entry) bool) bool {
	entries := make([][]*Entry, c.Pools)
	for i := range c.Entries() {
		e := c.Entry(i)
		entries[e.Pool] = append(entries[e.Pool], e)
		if wanted(e) && !yield(c.reservation(i, e)) {
			return false
		}
	}
	for pool := range c.Pools {
		if !yield(c.pool(pool, entries[pool])) {
			return false
		}
	}
	return true
}

// vouchEvery is how often agents renew their Leases.
const vouchEvery = 20 * time.Second

// Vouch renews the Leases of all reports, as the agents do, until the context ends.
// They are renewed before it calls ready.
func (c *Content) Vouch(ctx context.Context, etcd Etcd, ready func()) error {
	for {
		err := c.vouch(ctx, etcd)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if ready != nil {
			ready()
			ready = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(vouchEvery):
		}
	}
}

func (c *Content) vouch(ctx context.Context, etcd Etcd) error {
	c.vouching.Lock()
	defer c.vouching.Unlock()
	now := time.Now()
	return etcd.Write(ctx, func(yield func(Put) bool) {
		for node := range c.Nodes {
			if !yield(c.lease(node, podstate.Hash(c.Report(node)), now)) {
				return
			}
		}
	})
}
