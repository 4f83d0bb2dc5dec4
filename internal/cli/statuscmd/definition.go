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
	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
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
	// next installs it. without is what does not work where it is missing, old where it lacks fields.
	next, without, old string
	missing, lacks     document.Level
}

func (n neededDefinition) name() string { return n.resource.GroupResource().String() }

// neededDefinitions are those of whereabouts (v0.9.4, doc/crds), of Multus, and our own.
var neededDefinitions = []neededDefinition{
	{ippool.PoolResource, []string{"spec.range", "spec.allocations.id", "spec.allocations.podref", "spec.allocations.ifname"},
		"kubectl apply -f whereabouts/doc/crds", "nothing can be judged", "", document.LevelError, document.LevelWarning},
	{ippool.ReservationResource, []string{"spec.podref", "spec.ifname"},
		"kubectl apply -f whereabouts/doc/crds", "nothing can be judged", "", document.LevelError, document.LevelWarning},
	{ippool.NADResource, []string{"spec.config"},
		"kubectl get pods -A | grep multus", "there are no secondary networks of Multus", "", document.LevelWarning, document.LevelWarning},
	{v1alpha1.Resource(), fieldsOf("", reflect.TypeFor[v1alpha1.SandboxReport]()),
		"kubectl apply --server-side --force-conflicts -f deploy/crds", // as docs/install.md has it
		"no agent can report", ", and agents that are newer cannot publish", document.LevelError, document.LevelError},
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
	name, a := "CustomResourceDefinition "+n.name(), f.definitions[n.name()]
	switch {
	case !known(l, a, name+" is"):
	case a.value == nil && n.resource == v1alpha1.Resource() && !f.expectsAgents():
	case a.value == nil:
		l.add(n.missing, n.next, "%s is missing: %s.", name, n.without)
	case !slices.Contains(a.value.served, n.resource.Version):
		l.fail(fmt.Sprintf("kubectl get crd %s -o yaml", n.name()), "%s does not serve %s, which is needed, but %s.",
			name, n.resource.Version, strings.Join(a.value.served, ", "))
	case len(a.value.lacks) > 0:
		l.add(n.lacks, n.next, "%s is older than this version: it lacks %s%s.", name, few(shown, a.value.lacks), n.old)
	}
}

// sayDefinitions counts the definitions of which the check found nothing.
func sayDefinitions(f *facts, l *lines) {
	sound := 0
	for _, n := range neededDefinitions {
		if d := f.definitions[n.name()]; d.err == nil && d.value != nil && len(d.value.lacks) == 0 {
			sound++
		}
	}
	if sound > 0 {
		l.ok("%s are served with all fields.", plural(sound, "CustomResourceDefinition"))
	}
}
