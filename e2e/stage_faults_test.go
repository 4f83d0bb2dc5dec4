package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// backup copies etcd's data and returns how to put it back: a plain restore, after
// which resourceVersions run backwards.
func (s *stage) backup(t testing.TB) (restore func()) {
	t.Helper()
	kept := filepath.Join(t.TempDir(), "backup")
	s.offline(t, func() { check(t, os.CopyFS(kept, os.DirFS(s.EtcdData()))) })
	return func() {
		t.Helper()
		s.offline(t, func() {
			check(t, os.RemoveAll(s.EtcdData()))
			check(t, os.CopyFS(s.EtcdData(), os.DirFS(kept)))
		})
	}
}

// offline stops the control plane, does something, and starts it again.
func (s *stage) offline(t testing.TB, do func()) {
	t.Helper()
	s.StopAPI()
	s.StopEtcd()
	do()
	check(t, s.StartEtcd())
	check(t, s.StartAPI(t.Context()))
}

func (s *stage) leakByHand(t testing.TB) {
	t.Helper()
	s.pool(t, "10.1.0.0-24", "10.1.0.0/24", map[string]any{"77": entry("default/gone", noID)})
}

// notReady has the node lifecycle controller know nothing of a node, for so long.
func (s *stage) notReady(t testing.TB, node string, since time.Duration) {
	t.Helper()
	check(t, s.nodes[node].SetReady(context.Background(), false))
	if since > 0 {
		s.patchNode(t, node, map[string]any{"status": map[string]any{"conditions": []map[string]any{{
			"type": "Ready", "status": "Unknown", "lastTransitionTime": metav1.NewTime(time.Now().Add(-since)),
		}}}}, "status")
	}
}

func (s *stage) outOfService(t testing.TB, node string) {
	t.Helper()
	s.patchNode(t, node, map[string]any{"spec": map[string]any{"taints": []corev1.Taint{
		{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute},
	}}})
}

func (s *stage) patchNode(t testing.TB, node string, patch map[string]any, subresource ...string) {
	t.Helper()
	_, err := s.Client().CoreV1().Nodes().Patch(context.Background(), node, types.StrategicMergePatchType,
		try(json.Marshal(patch)).must(t), metav1.PatchOptions{}, subresource...)
	check(t, err)
}
