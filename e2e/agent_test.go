package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// An agent is a node agent as the API sees one: it writes a SandboxReport and a Lease that confirms the report. The
// test decides what the runtime lists.
type agent struct {
	s    *stage
	node string

	mu       sync.Mutex
	skew     time.Duration // of the node's clock
	settled  time.Duration // how long the content has been the same
	restored string        // the nonce on the Lease; "" for none
	hash     string        // on the Lease
	silent   bool          // it does not renew
	core     kubernetes.Interface
	objects  dynamic.Interface
	patient  bool   // failed requests are retried: the API server may be down
	lie      string // a hash for the Lease that differs from the report's
}

// agent starts an agent on a node. It renews its Lease until the test ends.
func (s *stage) agent(t testing.TB, node string) *agent {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	a := &agent{s: s, node: node, core: s.Client(), objects: s.Dynamic()}
	a.writeReport(t)
	var renewing sync.WaitGroup
	renewing.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(15 * time.Second):
				if err := a.renew(); err != nil && !a.patient {
					t.Errorf("renewing the Lease of %s: %v", node, err)
				}
			}
		}
	})
	t.Cleanup(func() {
		stop()
		renewing.Wait()
		a.remove(t)
	})
	return a
}

func (a *agent) remove(t testing.TB) {
	t.Helper()
	ctx := context.Background()
	if err := a.s.Dynamic().Resource(sandboxReports).Delete(ctx, a.node, metav1.DeleteOptions{}); err != nil &&
		!apierrors.IsNotFound(err) {
		t.Error(err)
	}
	if err := a.s.Client().CoordinationV1().Leases(harness.LeaseNamespace).Delete(ctx, a.node,
		metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

// change changes how the agent behaves from its next write on.
func (a *agent) change(how func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	how()
}

// now is the time by the node's own clock.
func (a *agent) now() time.Time { return time.Now().Add(a.skew) }

// writeReport writes a report with exactly these sandboxes, attachments and gone ids. It sets their times by the node's
// clock: sandboxes are ten minutes old, attachments one, and gone ids are new.
func (a *agent) writeReport(t testing.TB, content ...any) {
	t.Helper()
	check(t, a.write(content...))
}

func (a *agent) write(content ...any) error {
	a.mu.Lock()
	observed := a.now().Add(-a.settled)
	r := &v1alpha1.SandboxReport{
		TypeMeta:   metav1.TypeMeta{APIVersion: sandboxReports.GroupVersion().String(), Kind: "SandboxReport"},
		ObjectMeta: metav1.ObjectMeta{Name: a.node},
		Machine:    v1alpha1.Machine{SystemUUID: "uuid-of-" + a.node, MachineID: "machine-of-" + a.node}, // as harness.Node
		Runtime:    v1alpha1.Runtime{Name: "containerd", Version: "2.4.2"},
		ObservedAt: metav1.NewTime(observed),
	}
	for _, c := range content {
		switch c := c.(type) {
		case v1alpha1.Sandbox:
			c.CreatedAt = metav1.NewTime(observed.Add(-10 * time.Minute))
			r.Sandboxes = append(r.Sandboxes, c)
		case v1alpha1.Attachment:
			c.Since = metav1.NewTime(observed.Add(-time.Minute))
			r.Attachments = append(r.Attachments, c)
		case v1alpha1.Gone:
			c.Since = metav1.NewTime(observed.Add(-5 * time.Second))
			r.Gone = append(r.Gone, c)
		default:
			panic(fmt.Sprintf("a report has no %T", c))
		}
	}
	stored, err := a.store(r)
	if err == nil {
		// The hash is of the report as the API returns it, which is what readers get.
		a.hash = podstate.Hash(stored)
	}
	a.mu.Unlock()
	if err != nil {
		return err
	}
	return a.renew()
}

func (a *agent) store(r *v1alpha1.SandboxReport) (*v1alpha1.SandboxReport, error) {
	ctx, reports := context.Background(), a.objects.Resource(sandboxReports)
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	old, err := reports.Get(ctx, a.node, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		u, err = reports.Create(ctx, u, metav1.CreateOptions{})
	case err == nil:
		u.SetResourceVersion(old.GetResourceVersion())
		u, err = reports.Update(ctx, u, metav1.UpdateOptions{})
	}
	if err != nil {
		return nil, err
	}
	stored := &v1alpha1.SandboxReport{}
	return stored, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, stored)
}

// renew renews the Lease, or creates it.
func (a *agent) renew() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.silent {
		return nil
	}
	ctx, leases := context.Background(), a.core.CoordinationV1().Leases(harness.LeaseNamespace)
	lease, err := leases.Get(ctx, a.node, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	missing := err != nil
	if missing {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: a.node}}
	}
	lease.Annotations = map[string]string{v1alpha1.HashAnnotation: a.hash}
	if a.lie != "" {
		lease.Annotations[v1alpha1.HashAnnotation] = a.lie
	}
	if a.restored != "" {
		lease.Annotations[v1alpha1.RestoreAnnotation] = a.restored
	}
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: &a.node, LeaseDurationSeconds: ptr.To(int32(60)), RenewTime: ptr.To(metav1.NewMicroTime(a.now())),
	}
	if missing {
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	return err
}

// listed is the pod's sandbox as a runtime lists it, with what its CNI cache says.
func (p *pod) listed(state v1alpha1.SandboxState) v1alpha1.Sandbox {
	return v1alpha1.Sandbox{
		ID: p.sandbox.ID, Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), State: state, Addresses: p.addresses(),
	}
}

// stopped is listed where the network is closed.
func (p *pod) stopped() v1alpha1.Sandbox {
	b := p.listed(v1alpha1.SandboxNotReady)
	b.NetworkClosed = ptr.To(true)
	return b
}

// gone is the pod's sandbox after the runtime removed it.
func (p *pod) gone() v1alpha1.Gone { return v1alpha1.Gone{ID: p.sandbox.ID, UID: string(p.UID)} }

func (p *pod) addresses() []v1alpha1.Address {
	var all []v1alpha1.Address
	for i, a := range p.attachments {
		for _, ip := range p.status[i].IPs {
			address := v1alpha1.Address{IP: ip, IfName: a.IfName, Network: a.Network.Name,
				Range: fmt.Sprint(a.Network.IPAM["range"])}
			if name, ok := a.Network.IPAM["network_name"]; ok {
				address.NetworkName = fmt.Sprint(name)
			}
			all = append(all, address)
		}
	}
	return all
}
