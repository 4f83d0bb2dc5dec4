//go:build slow

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// collected is a kind as 'oc adm inspect' writes it: in which folder of its namespace, and
// whether all of a namespace in one file.
type collected struct {
	resource, folder string
	oneFile          bool
}

// inspect writes the cluster as 'oc adm inspect' does (oc, pkg/cli/admin/inspect): objects in
// folders of namespace and group, all pods of a namespace in one file, and those that run in
// one each as well, beside their logs.
func (s *stage) inspect(t testing.TB) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "must-gather", "registry-example-sha256-0123")
	put := func(object any, parts ...string) {
		path := filepath.Join(append([]string{dir}, parts...)...)
		check(t, os.MkdirAll(filepath.Dir(path), 0o700))
		check(t, os.WriteFile(path, append([]byte("---\n"), try(yaml.Marshal(object)).must(t)...), 0o600))
	}
	for _, kind := range []collected{
		{"ippools.whereabouts.cni.cncf.io", "whereabouts.cni.cncf.io/ippools", false},
		{"overlappingrangeipreservations.whereabouts.cni.cncf.io", "whereabouts.cni.cncf.io/overlappingrangeipreservations", false},
		{"net-attach-def", "k8s.cni.cncf.io/network-attachment-definitions", false},
		{"pods", "core/pods", true}, {"nodes", "core/nodes", false},
	} {
		var list struct {
			Items []map[string]any `json:"items"`
		}
		check(t, json.Unmarshal([]byte(s.mustKubectl(t, "get", kind.resource, "-A", "-o", "json")), &list))
		byNamespace := map[string][]any{}
		for _, o := range list.Items {
			meta := o["metadata"].(map[string]any)
			name := meta["name"].(string)
			namespace, namespaced := meta["namespace"].(string)
			place := []string{"cluster-scoped-resources"}
			if namespaced {
				place = []string{"namespaces", namespace}
			}
			if !kind.oneFile {
				put(o, append(place, kind.folder, name+".yaml")...)
				continue
			}
			byNamespace[namespace] = append(byNamespace[namespace], o)
			if status, _ := o["status"].(map[string]any); status["phase"] == "Running" {
				put(o, append(place, "pods", name, name+".yaml")...)
				put("kind: Pod", append(place, "pods", name, "main", "main", "logs", "current.log")...)
			}
		}
		for namespace, items := range byNamespace {
			put(map[string]any{"apiVersion": "v1", "kind": "PodList", "metadata": map[string]any{}, "items": items}, "namespaces", namespace, kind.folder+".yaml")
		}
	}
	check(t, os.WriteFile(filepath.Join(dir, "etcd_object_count"), []byte("9 pods\n"), 0o600))
	check(t, os.WriteFile(filepath.Join(dir, "endpoint_status.json"), []byte(`[{"Endpoint":"https://10.0.0.1:2379"}]`), 0o600))
	return dir
}

// dump is what 'kubectl cluster-info dump' writes, with what it leaves out.
func (s *stage) dump(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	s.mustKubectl(t, "cluster-info", "dump", "-A", "--output-directory", dir, "--pod-running-timeout", "1s")
	kinds := strings.TrimSuffix(exported, ",pods,nodes,net-attach-def") + ",net-attach-def"
	check(t, os.WriteFile(filepath.Join(dir, "pools.yaml"), []byte(s.mustKubectl(t, "get", kinds, "-A", "-o", "yaml")), 0o600))
	return dir
}

func TestTreesOfOtherToolsAreJudgedAsTheLiveCluster(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	s.varied(t)
	s.young(t, recentReservation)
	live := s.product(t, "check")
	s.young(t, recentReservation)
	inspected := s.inspect(t)
	s.young(t, recentReservation)
	for name, dir := range map[string]string{"oc adm inspect": inspected, "kubectl cluster-info dump": s.dump(t)} {
		t.Run(name, func(t *testing.T) {
			same(t, product(t, "check", "--snapshot", dir, "-o", "json"), live)
		})
	}
}
