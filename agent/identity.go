package agent

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// Identity identifies a machine and its current boot.
type Identity struct {
	// BootID is /proc/sys/kernel/random/boot_id, "" if the Node object does not confirm it.
	BootID string
	// Machine is empty if it is unknown.
	Machine v1alpha1.Machine
}

// matches reports whether a report certainly belongs to this machine: the boot id is the same, or both machine ids are.
func (i Identity) matches(report *v1alpha1.SandboxReport) bool {
	return i.BootID != "" && i.BootID == report.BootID || i.Machine.Same(report.Machine)
}

// Confirmer checks that the Node object belongs to this machine. After a success it does not read the object again.
// It is not safe for concurrent use.
type Confirmer struct {
	// Node is the name of the Node object, BootID the boot id of this machine.
	Node, BootID string
	// Get reads the Identity in the Node object.
	Get func(ctx context.Context) (Identity, error)

	identity *Identity
}

// Identity returns this machine's Identity once the Node object has the same boot id. Kubelet writes the boot id
// some time after a boot.
//
// It returns an error if the Node object cannot be read or has another boot id. If the Node object is missing or
// forbidden, the earlier report of the same boot replaces it. If neither has a boot id, the Identity is empty. The
// report then says what runs, and does not prove that a sandbox is absent.
func (c *Confirmer) Identity(ctx context.Context, before *v1alpha1.SandboxReport) (Identity, error) {
	if c.identity != nil {
		return *c.identity, nil
	}
	node, err := c.Get(ctx)
	noNode := apierrors.IsForbidden(err) || isAbsent(err)
	switch {
	case err == nil && node.BootID == c.BootID:
		c.identity = &node
		return node, nil
	case noNode && before.BootID == c.BootID:
		return Identity{BootID: before.BootID, Machine: before.Machine}, nil // it is asked for again
	case (noNode || err == nil && node.BootID == "") && before.BootID == "":
		return Identity{}, nil
	case err != nil:
		return Identity{}, err
	}
	return Identity{}, fmt.Errorf("the Node %s has boot id %q and this machine %q: "+
		"kubelet has not reported the last boot yet, or --node names another machine", c.Node, node.BootID, c.BootID)
}
