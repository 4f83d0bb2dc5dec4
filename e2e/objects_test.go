//go:build slow || cluster

package e2e

import (
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// objectsIn is the metadata of all that a cluster stores, by resource and name, but for Events and some kinds.
func objectsIn(t *testing.T, config *rest.Config, without ...string) (map[string]metav1.ObjectMeta, error) {
	t.Helper()
	config.WarningHandler = rest.NoWarnings{} // of deprecated resources
	api, all := try(metadata.NewForConfig(config)).must(t), map[string]metav1.ObjectMeta{}
	served, err := try(discovery.NewDiscoveryClientForConfig(config)).must(t).ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	for _, group := range served {
		gv := try(schema.ParseGroupVersion(group.GroupVersion)).must(t)
		for _, r := range group.APIResources {
			if !slices.Contains(r.Verbs, "list") || r.Kind == "Event" || slices.Contains(without, r.Kind) {
				continue
			}
			list, err := api.Resource(gv.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{})
			if apierrors.IsNotFound(err) { // its definition is deleted
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", r.Name, err)
			}
			for _, o := range list.Items {
				all[fmt.Sprintf("%s.%s %s/%s", r.Name, gv.Group, o.Namespace, o.Name)] = o.ObjectMeta
			}
		}
	}
	return all, nil
}

// changedBetween are the objects that were added or removed, or have other labels, annotations or finalizers.
func changedBetween(before, after map[string]metav1.ObjectMeta) (all []string) {
	text := func(o metav1.ObjectMeta) string { return fmt.Sprint(o.Labels, o.Annotations, o.Finalizers) }
	for object, is := range after {
		if was, existed := before[object]; !existed || text(was) != text(is) {
			all = append(all, fmt.Sprintf("%s: %s, was %q", object, text(is), text(was)))
		}
	}
	for object := range before {
		if _, exists := after[object]; !exists {
			all = append(all, object+" is removed")
		}
	}
	slices.Sort(all)
	return all
}
