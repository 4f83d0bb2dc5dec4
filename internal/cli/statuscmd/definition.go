package statuscmd

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
)

var definitionResource = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// neededDefinition is what this program uses of a kind.
type neededDefinition struct {
	resource schema.GroupVersionResource
	// fields, as "sandboxes.id", without which something is lost: the API server drops what a definition lacks.
	fields []string
}

func (n neededDefinition) name() string { return n.resource.GroupResource().String() }

// neededDefinitions are those of whereabouts (v0.9.4, doc/crds), of Multus, and our own.
func neededDefinitions() []neededDefinition {
	return []neededDefinition{
		{ippool.PoolResource, []string{"spec.range", "spec.allocations.id", "spec.allocations.podref", "spec.allocations.ifname"}},
		{ippool.ReservationResource, []string{"spec.podref", "spec.ifname"}},
		{ippool.NADResource, []string{"spec.config"}},
		{v1alpha1.Resource(), fieldsOf("", reflect.TypeFor[v1alpha1.SandboxReport]())},
	}
}

// fieldsOf are the fields of a Go type as a definition has them, without metadata, sorted.
func fieldsOf(prefix string, t reflect.Type) (fields []string) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[metav1.Time]() {
		return nil
	}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "metadata" {
			fields = append(fields, prefix+name)
			fields = append(fields, fieldsOf(prefix+name+".", t.Field(i).Type)...)
		}
	}
	slices.Sort(fields)
	return fields
}

// definition is what a CustomResourceDefinition serves, and the needed fields that it lacks.
type definition struct{ served, lacks []string }

// readDefinition is nil where the cluster does not have the definition.
func readDefinition(ctx context.Context, api dynamic.Interface, n neededDefinition) (*definition, error) {
	o, err := api.Resource(definitionResource).Get(ctx, n.name(), metav1.GetOptions{})
	if err != nil {
		return nil, unlessAbsent(err)
	}
	return n.definition(o)
}

func (n neededDefinition) definition(o *unstructured.Unstructured) (*definition, error) {
	d := &definition{lacks: n.fields}
	versions, _, err := unstructured.NestedSlice(o.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		name, _ := version["name"].(string)
		if version["served"] != true {
			continue
		}
		d.served = append(d.served, name)
		if schema, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema"); name == n.resource.Version {
			d.lacks = slices.DeleteFunc(slices.Clone(n.fields), func(field string) bool {
				return keeps(schema, strings.Split(field, "."))
			})
		}
	}
	return d, err
}

// keeps reports whether a schema has a field, or keeps those that it does not know. Entries of lists and maps are one.
func keeps(schema map[string]any, path []string) bool {
	if len(path) == 0 || schema["x-kubernetes-preserve-unknown-fields"] == true {
		return true
	}
	for _, inner := range []string{"items", "additionalProperties"} {
		if of, ok := schema[inner].(map[string]any); ok && keeps(of, path) {
			return true
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	property, ok := properties[path[0]].(map[string]any)
	return ok && keeps(property, path[1:])
}

// say is the check of the definition. It has no line for a sound one: see sayDefinitions.
func (n neededDefinition) say(f *facts, l *lines) {
	a, isReport := f.definitions[n.name()], n.resource == v1alpha1.Resource()
	switch {
	case !a.known():
		l.unknown("CustomResourceDefinition %s is not known: %s.", n.name(), a.why())
	case a.value == nil && isReport && !f.expectsAgents():
	case a.value == nil && isReport:
		l.fail("kubectl apply -f deploy/crds", "CustomResourceDefinition %s is missing: no agent can report.", n.name())
	case a.value == nil && n.resource == ippool.NADResource:
		l.warn("kubectl get pods -A | grep multus",
			"CustomResourceDefinition %s, which Multus brings, is missing: there are no secondary networks.", n.name())
	case a.value == nil:
		l.fail(fmt.Sprintf("kubectl apply -f whereabouts/doc/crds/%s_%s.yaml", n.resource.Group, n.resource.Resource),
			"whereabouts' CustomResourceDefinition %s is missing: nothing can be judged.", n.name())
	case !slices.Contains(a.value.served, n.resource.Version):
		l.fail("kubectl get crd "+n.name()+" -o yaml", "%s is not served as %s, which is needed (served: %s).",
			n.name(), n.resource.Version, strings.Join(a.value.served, ", "))
	case len(a.value.lacks) > 0 && isReport:
		l.fail("kubectl apply --server-side --force-conflicts -f deploy/crds", // as docs/install.md has it
			"CustomResourceDefinition %s is older than this version: it lacks %s, and agents that are newer cannot publish.",
			n.name(), few(shown, a.value.lacks))
	case len(a.value.lacks) > 0:
		l.warn("kubectl apply -f whereabouts/doc/crds", "CustomResourceDefinition %s is older than what is expected: it lacks %s.",
			n.name(), few(shown, a.value.lacks))
	}
}

// sayDefinitions counts the definitions of which the check found nothing.
func sayDefinitions(f *facts, l *lines) {
	sound := 0
	for _, n := range neededDefinitions() {
		d := f.definitions[n.name()]
		if d.known() && d.value != nil && len(d.value.lacks) == 0 && slices.Contains(d.value.served, n.resource.Version) {
			sound++
		}
	}
	if sound > 0 {
		l.ok("%s are served with all fields.", plural(sound, "CustomResourceDefinition"))
	}
}
