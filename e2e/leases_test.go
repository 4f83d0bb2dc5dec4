package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// holder makes a Cluster that holds Leases under a name.
func (s *stage) holder(t *testing.T, identity string) *kube.Cluster {
	t.Helper()
	return try(kube.New(s.Config(), kube.Settings{
		Namespace: "kube-system", Identity: identity, Log: discard, Jitter: func(d time.Duration) time.Duration { return d },
	})).must(t)
}

// heldBy is who holds a Lease, "" if nobody does or there is none.
func (s *stage) heldBy(t *testing.T, name string) string {
	t.Helper()
	list := try(s.Client().CoordinationV1().Leases("kube-system").List(context.Background(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})).must(t)
	if len(list.Items) == 0 {
		return ""
	}
	return ptr.Deref(list.Items[0].Spec.HolderIdentity, "")
}

// leases are the versions of all Leases but those of the API server itself.
func (s *stage) leases(t *testing.T) map[string]string {
	t.Helper()
	versions := map[string]string{}
	for _, l := range try(s.Client().CoordinationV1().Leases("").List(context.Background(), metav1.ListOptions{})).must(t).Items {
		if !strings.HasPrefix(l.Name, "apiserver-") {
			versions[l.Name] = l.ResourceVersion
		}
	}
	return versions
}
