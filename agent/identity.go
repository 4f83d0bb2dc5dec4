package agent

import (
	"context"
	"fmt"

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

// Confirmer finds out whether the Node object is of this machine. It reads the object
// until it knows, and not after. It is for one goroutine.
type Confirmer struct {
	// Node is the name, and BootID this machine's.
	Node, BootID string
	// Get reads the Node object's.
	Get func(ctx context.Context) (Identity, error)

	confirmed *Identity
}

// Identity returns this machine's once the Node object has the same boot id, which
// kubelet writes there some time after a boot. It is an error if the Node object could not
// be read, or has another boot id: kubelet has not updated it yet after a boot, or it is
// another machine. Where there is no Node object, or none that the agent may read, before,
// the node's report, stands in for it if it is of this boot. Where neither has a boot id,
// nothing is known, and the Identity is empty.
func (c *Confirmer) Identity(ctx context.Context, before *v1alpha1.SandboxReport) (Identity, error) {
	if c.confirmed != nil {
		return *c.confirmed, nil
	}
	node, err := c.Get(ctx)
	hidden := apierrors.IsForbidden(err) || apierrors.IsNotFound(err)
	switch {
	case err == nil && node.BootID == c.BootID:
		c.confirmed = &node
		return node, nil
	case hidden && before.BootID == c.BootID:
		c.confirmed = &Identity{BootID: before.BootID, Machine: before.Machine}
		return *c.confirmed, nil
	case (hidden || err == nil && node.BootID == "") && before.BootID == "":
		return Identity{}, nil
	case err != nil:
		return Identity{}, err
	}
	return Identity{}, fmt.Errorf("the Node %s was booted as %q and this machine as %q: its kubelet has not said yet "+
		"that it was booted again, or --node names another machine", c.Node, node.BootID, c.BootID)
}
