package ippool

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// Removal is the right to delete one version of a pool, as it was read: without any entry. Only NewRemoval makes one.
// To whereabouts an empty pool and a missing one are the same: the next ADD assigns the same address.
type Removal struct {
	pool                 types.NamespacedName
	uid, resourceVersion string
}

// NewRemoval returns the removal of a pool, or why it must not be deleted: it has an entry, readable or not, it cannot
// be read, or it would exist for a while after its delete, when an ADD may write an entry that is lost with it.
func NewRemoval(p *Pool) (*Removal, error) {
	refuse := func(why string) (*Removal, error) { return nil, fmt.Errorf("pool %s %s", p.Ref(), why) }
	switch {
	case p.Problem != "":
		return refuse("cannot be read: " + p.Problem)
	case p.NoMap:
		return refuse("has no field spec.allocations, so what it has is unknown")
	case len(p.Allocations) > 0:
		return refuse(fmt.Sprintf("has %d allocations", len(p.Allocations)))
	case p.IsDeleting:
		return refuse("is being deleted already, and waits for its finalizers")
	case p.HasFinalizers:
		return refuse("has metadata.finalizers, so that it would exist on after its delete, and what an ADD writes into " +
			"it then would be lost")
	case p.Namespace == "" || p.Name == "" || p.UID == "" || p.ResourceVersion == "":
		return nil, errors.New("the pool was read without its namespace, name, UID or resourceVersion")
	}
	return &Removal{p.NamespacedName, p.UID, p.ResourceVersion}, nil
}

// Pool is the pool's name.
func (r *Removal) Pool() types.NamespacedName { return r.pool }

// Version returns what the delete tests.
func (r *Removal) Version() (uid, resourceVersion string) { return r.uid, r.resourceVersion }
