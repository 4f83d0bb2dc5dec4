package informers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// List returns what the watches have told. The error is ErrCacheUnverified where
// that may be out of step with the API server.
func (s *Source) List(ctx context.Context) (*reconciler.Observation, error) {
	g := s.session()
	if g == nil {
		return nil, fmt.Errorf("%w: there are none yet", ErrCacheUnverified)
	}
	if err := s.verify(ctx, g); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCacheUnverified, err)
	}
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	o := g.view.observe(last)
	s.knownReports.setMissed(o)
	return o, nil
}

// verify says why the caches cannot be relied upon. Where a watch was opened
// again since, the revision is compared: one that was resumed at a revision that
// a restored etcd has not reached yet is open and tells nothing.
func (s *Source) verify(ctx context.Context, g *cacheSession) error {
	if err := g.watches.status(g.kinds); err != nil {
		return err
	}
	g.mu.Lock()
	checked, compared := g.verified, g.opens
	g.mu.Unlock()
	if !checked {
		return fmt.Errorf("they were not compared with a full look yet")
	}
	_, opens := g.watches.counts()
	if opens == compared {
		return nil
	}
	why, err := s.backwards(ctx, g)
	if err != nil {
		return err
	}
	if why != "" {
		g.invalidate()
		s.mu.Lock()
		s.restored, s.restoreNoticedAt = why, s.Now()
		s.mu.Unlock()
		return errors.New(why)
	}
	g.mu.Lock()
	g.opens = opens
	g.mu.Unlock()
	return nil
}

// backwards says what showed that etcd was restored since the caches were built,
// "" if nothing did: an object came at an older resourceVersion than before, or
// etcd is at an older one than the watches have told of.
func (s *Source) backwards(ctx context.Context, g *cacheSession) (why string, err error) {
	newest, why := g.view.newestVersions()
	for _, k := range g.kinds {
		seen := newest[k.resource.Resource]
		if why != "" || seen == 0 {
			continue
		}
		now, err := s.Revision(ctx, k.resource, k.where["metadata.namespace"], k.where["metadata.name"])
		if err != nil {
			return "", err
		}
		if now < seen {
			why = fmt.Sprintf("etcd is at resourceVersion %d, and the watch of %s has told of %d", now, k.resource.Resource, seen)
		}
	}
	return why, nil
}

func (g *cacheSession) invalidate() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.verified = false
}

// newestVersions are the newest resourceVersions so far, by resource, and what showed that
// etcd was restored, "" if nothing did.
func (v *view) newestVersions() (newest map[string]uint64, restored string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.newest), v.restored
}

// Full is the cluster as a source that reads by quorum and compares the caches
// with what it read.
type Full struct {
	*Source
	// Settle is how long the caches get to come into step with a first read
	// before a second is made; 2 s if zero.
	Settle time.Duration
	// OnRestore is told at once what shows in a look that etcd was restored, and when by the API
	// server's clock: before the caches are thrown away, after which nothing shows it.
	OnRestore func(why string, at time.Time)
	// OnRebuild is told what was wrong with caches that are thrown away.
	OnRebuild func(why string)
}

// List reads everything by quorum. Then the caches are compared: what
// differs at once may be on its way, so after a pause everything is read again,
// and what a cache holds unchanged although both reads say otherwise is a ghost
// or a gap.
func (f *Full) List(ctx context.Context) (*reconciler.Observation, error) {
	for {
		looking, end := context.WithCancel(ctx)
		f.mu.Lock()
		f.cancelFullPass = end
		f.mu.Unlock()
		o, err := f.observe(looking)
		again := looking.Err() != nil && ctx.Err() == nil
		end()
		if err == nil || !again {
			return o, err
		}
	}
}

func (f *Full) observe(ctx context.Context) (*reconciler.Observation, error) {
	g := f.session()
	faults, opens := 0, 0
	if g != nil {
		faults, opens = g.watches.counts()
	}
	first := opens
	o, err := f.Cluster.List(ctx)
	if err != nil {
		return nil, err
	}
	if g == nil {
		f.remember(o)
		f.recordRestore(o, "", nil)
		return o, nil
	}
	differences := g.view.differences(o, g.kinds)
	if len(differences) > 0 {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(f.settle()):
		}
		faults, opens = g.watches.counts()
		if o, err = f.Cluster.List(ctx); err != nil {
			return nil, err
		}
		differences = persisting(differences, g.view.differences(o, g.kinds))
	}
	f.remember(o)
	restored, err := f.backwards(ctx, g)
	f.recordRestore(o, restored, differences)
	switch {
	case o.Restored != "":
		f.rebuildCaches(o.Restored)
	case f.kindsChanged(ctx, g):
		f.Rebuild("what may be watched has changed")
	case err != nil: // not known to agree
	case len(differences) > 0 && (opens != first || g.watches.closedWatch(g.kinds) != nil):
		// A watch that was closed meanwhile tells later what it has missed.
	case len(differences) > 0:
		f.rebuildCaches(describe(differences))
	default:
		g.mu.Lock()
		g.verified, g.opens = true, opens
		g.mu.Unlock()
		g.watches.clearFailure(faults)
	}
	return o, nil
}

// recordRestore says in a look what showed that etcd was restored since the one before:
// what a look at the caches or the caches themselves saw, or an object that they hold
// at a newer resourceVersion than was read after them.
func (f *Full) recordRestore(o *reconciler.Observation, why string, differences map[string]difference) {
	f.mu.Lock()
	why, o.Intact = cmp.Or(f.unreportedRestore(), why), f.intact
	f.restored, f.intact = "", time.Time{}
	f.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(differences)) {
		if d := differences[key]; why == "" && d.listed != "" && number(d.listed) < number(d.cached) {
			why = fmt.Sprintf("%s is at resourceVersion %s after %s", key, d.listed, d.cached)
		}
	}
	if o.Restored = why; why != "" && f.OnRestore != nil {
		f.OnRestore(why, o.Now)
	}
}

func (f *Full) settle() time.Duration {
	if f.Settle == 0 {
		return 2 * time.Second
	}
	return f.Settle
}

func (f *Full) rebuildCaches(why string) {
	f.Rebuild(why)
	if f.OnRebuild != nil {
		f.OnRebuild(why)
	}
}

func (f *Full) remember(o *reconciler.Observation) {
	f.knownReports.setMissed(o)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = &reconciler.Observation{Warnings: o.Warnings, ReportsUnreadable: o.ReportsUnreadable, Paused: o.Paused, Acknowledged: o.Acknowledged}
}

// kindsChanged reports whether a kind is served or allowed that was not, or the
// other way round. A question that is not answered is no answer.
func (f *Full) kindsChanged(ctx context.Context, g *cacheSession) bool {
	names := func(kinds []kind) (all []string) {
		for _, k := range kinds {
			all = append(all, k.resource.Resource)
		}
		return all
	}
	now, err := f.watchable(ctx)
	return err == nil && !slices.Equal(names(now), names(g.kinds))
}

// difference is an object of which a cache has another version than was read.
type difference struct {
	resource       string
	name           types.NamespacedName
	cached, listed string // resourceVersions, "" for none
}

// differences finds what differs between the caches and a full look.
func (v *view) differences(o *reconciler.Observation, kinds []kind) map[string]difference {
	listed := map[string]map[types.NamespacedName]string{}
	add := func(resource, namespace, name, version string) {
		if listed[resource] == nil {
			listed[resource] = map[types.NamespacedName]string{}
		}
		listed[resource][types.NamespacedName{Namespace: namespace, Name: name}] = version
	}
	for _, p := range o.Pools {
		add(ippool.PoolResource.Resource, p.Namespace, p.Name, p.ResourceVersion)
	}
	for _, r := range o.Reservations {
		add(ippool.ReservationResource.Resource, r.Namespace, r.Name, r.ResourceVersion)
	}
	for name, p := range o.Pods {
		add("pods", name.Namespace, name.Name, p.ResourceVersion)
	}
	for name, n := range o.Nodes {
		add("nodes", "", name, n.ResourceVersion)
	}
	for name, n := range o.NADs {
		add(ippool.NADResource.Resource, name.Namespace, name.Name, n.ResourceVersion)
	}
	for _, r := range o.Reports {
		add(v1alpha1.Resource().Resource, "", r.Name, r.ResourceVersion)
	}
	found := map[string]difference{}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, k := range kinds {
		resource := k.resource.Resource
		if resource == "leases" || resource == "namespaces" || // not in an observation as they are
			resource == v1alpha1.Resource().Resource && o.ReportsUnreadable {
			continue
		}
		all := maps.Clone(listed[resource])
		for name, i := range v.objects[resource] {
			if version := all[name]; version != i.ResourceVersion {
				found[resource+" "+name.String()] = difference{resource, name, i.ResourceVersion, version}
			}
			delete(all, name)
		}
		for name, version := range all {
			found[resource+" "+name.String()] = difference{resource, name, "", version}
		}
	}
	return found
}

// persisting are the differences of which the caches' side has not moved.
func persisting(before, after map[string]difference) map[string]difference {
	maps.DeleteFunc(after, func(key string, d difference) bool {
		first, was := before[key]
		return !was || first.cached != d.cached
	})
	return after
}

func describe(differences map[string]difference) string {
	keys := slices.Sorted(maps.Keys(differences))
	d := differences[keys[0]]
	var text string
	switch {
	case d.cached == "":
		text = "is missing there"
	case d.listed == "":
		text = "is there and does not exist"
	default:
		text = fmt.Sprintf("is there at resourceVersion %s and was read at %s", d.cached, d.listed)
	}
	more := ""
	if n := len(keys) - 1; n > 0 {
		more = fmt.Sprintf(", and %d more", n)
	}
	return strings.TrimSpace(keys[0]) + " " + text + more
}
