package agent

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// Identity is which machine a node is, and which of its boots.
type Identity struct {
	// BootID is /proc/sys/kernel/random/boot_id, "" where it is not known to be the
	// node's.
	BootID string
	// Machine is empty where it is not known.
	Machine v1alpha1.Machine
}

// matches reports whether a report is known to be of this machine: made since it was
// booted, or by a machine with both of its ids.
func (i Identity) matches(report *v1alpha1.SandboxReport) bool {
	return i.BootID != "" && i.BootID == report.BootID || i.Machine.Same(report.Machine)
}

const (
	identityEvery = 10 * time.Second // between attempts to learn which machine this is
	// forbiddenFor is how long an agent that may not read its Node does not ask again.
	forbiddenFor = 10 * time.Minute
)

// Confirmer finds out whether the Node object is of this machine. It reads the object
// until it knows, and not after. It is for one goroutine.
type Confirmer struct {
	// Node is the name, and BootID this machine's.
	Node, BootID string
	// Get reads the Node object's.
	Get func(ctx context.Context) (Identity, error)
	Log *slog.Logger

	warned    bool
	confirmed *Identity
	next      time.Time
	last      error
}

// Identity returns this machine's once the Node object has the same boot id, which
// kubelet writes there some time after a boot, and an empty one where that cannot be
// known. It is an error if the Node object could not be read, or has another boot id:
// kubelet has not updated it yet after a boot, or it is another machine.
// Where the Node object may not be read, before, the node's report, stands in for it
// if it is of this boot.
func (c *Confirmer) Identity(ctx context.Context, before *v1alpha1.SandboxReport) (Identity, error) {
	if c.confirmed != nil {
		return *c.confirmed, nil
	}
	if time.Now().Before(c.next) {
		return Identity{}, c.last
	}
	c.next, c.last = time.Now().Add(identityEvery), nil
	node, err := c.Get(ctx)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		if before.BootID == c.BootID {
			c.confirmed = &Identity{BootID: before.BootID, Machine: before.Machine}
			return *c.confirmed, nil
		}
		if apierrors.IsForbidden(err) {
			c.next = time.Now().Add(forbiddenFor)
		}
	case err != nil:
		c.last = err
	case node.BootID == c.BootID:
		c.confirmed = &node
		return node, nil
	case node.BootID == "":
		c.last = fmt.Errorf("the Node %s has no boot id: its kubelet has not said yet which machine it is", c.Node)
	default:
		c.last = fmt.Errorf("the Node %s was booted as %s and this machine as %s: its kubelet has not said yet that it was booted again, or --node names another machine", c.Node, node.BootID, c.BootID)
	}
	if !c.warned {
		c.warned = true
		c.Log.Warn("the boot id and the machine are left out of the report until the Node object has the same boot id", "node", c.Node, "error", cmp.Or(err, c.last))
	}
	return Identity{}, c.last
}
