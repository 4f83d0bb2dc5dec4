//go:build !slow && !cluster

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// addresses are those that sandboxes have, by the results of their ADDs. It is safe for concurrent use.
type addresses struct {
	mu    sync.Mutex
	users map[string]string // container IDs by address
	added int
}

func newAddresses() *addresses { return &addresses{users: map[string]string{}} }

// take records the result of an ADD. It fails if another sandbox has the address.
func (a *addresses) take(address, id string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.users[address]
	a.users[address] = id
	a.added++
	if before != "" {
		return fmt.Errorf("%s is of %s and of %s", address, before, id)
	}
	return nil
}

// give records that the DEL of an address is about to begin.
func (a *addresses) give(address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.users, address)
}

func (a *addresses) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.added
}

// defined is a network by its definition in the API, as Multus reads it when an ADD begins.
func (s *stage) defined(name string) (harness.Network, error) {
	o, err := s.Dynamic().Resource(harness.NADs).Namespace("default").Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		return harness.Network{}, err
	}
	text, _, _ := unstructured.NestedString(o.Object, "spec", "config")
	var config struct {
		IPAM harness.IPAM `json:"ipam"`
	}
	err = json.Unmarshal([]byte(text), &config)
	return network(name, config.IPAM), err
}

// begin creates a sandbox for a pod and calls ADD, and returns the attachment and its first address.
func (p *pod) begin(n harness.Network, users *addresses) (harness.Attachment, string, error) {
	box, err := p.node.NewSandbox()
	if err != nil {
		return harness.Attachment{}, "", err
	}
	a := harness.Attachment{Sandbox: box, Namespace: p.Namespace, Pod: p.Name, UID: string(p.UID), IfName: "net1",
		Network: n}
	result, err := p.node.Add(context.Background(), a)
	if err != nil {
		return a, "", fmt.Errorf("ADD: %w", err)
	}
	address := harness.Addresses(result)[0].String()
	return a, address, users.take(address, box.ID)
}

// end calls DEL with the configuration of the ADD, as libcni does from its cache.
func (p *pod) end(a harness.Attachment, address string, users *addresses) error {
	users.give(address)
	if err := p.node.Del(context.Background(), a); err != nil {
		return err
	}
	return a.Sandbox.Close()
}

// edit replaces the configuration of a NetworkAttachmentDefinition.
func (s *stage) edit(t *testing.T, n harness.Network) {
	t.Helper()
	check(t, s.UpdateNAD(t.Context(), n))
}
