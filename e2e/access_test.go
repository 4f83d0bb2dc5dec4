package e2e

import (
	"bufio"
	"errors"
	"io"
	"os"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// upstreamRules are those of whereabouts v0.9.4's ClusterRole, as shipped.
func upstreamRules(t testing.TB) []rbacv1.PolicyRule {
	t.Helper()
	f := try(os.Open(harness.UpstreamManifest(t, "daemonset-install.yaml"))).must(t)
	defer f.Close()
	for documents := yaml.NewYAMLReader(bufio.NewReader(f)); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			t.Fatal("daemonset-install.yaml has no ClusterRole")
		}
		check(t, err)
		var role rbacv1.ClusterRole
		if yaml.Unmarshal(document, &role) == nil && role.Kind == "ClusterRole" {
			return role.Rules
		}
	}
}

// without takes verbs on a resource out of rules; no verbs mean all of them.
func without(rules []rbacv1.PolicyRule, resource string, verbs ...string) []rbacv1.PolicyRule {
	var rest []rbacv1.PolicyRule
	for _, r := range rules {
		r = *r.DeepCopy()
		if slices.Contains(r.Resources, resource) {
			kept := r
			kept.Resources = slices.DeleteFunc(slices.Clone(r.Resources), func(x string) bool { return x == resource })
			r.Resources = []string{resource}
			r.Verbs = slices.DeleteFunc(slices.Clone(r.Verbs), func(v string) bool { return len(verbs) == 0 || slices.Contains(verbs, v) })
			if len(kept.Resources) > 0 {
				rest = append(rest, kept)
			}
		}
		if len(r.Verbs) > 0 {
			rest = append(rest, r)
		}
	}
	return rest
}
