package statuscmd

import (
	"context"
	"maps"
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

var definitionResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// definition is what a CustomResourceDefinition serves.
type definition struct {
	served []string
	// fields of the version that is used, "sandboxes.id", entries of lists and maps as one.
	fields map[string]bool
}

// needed is what this program uses of a kind.
type needed struct {
	resource schema.GroupVersionResource
	// fields without which something is lost: the API server drops what a definition does
	// not have.
	fields []string
}

func (n needed) name() string { return n.resource.Resource + "." + n.resource.Group }

// neededDefinitions are those of whereabouts (v0.9.4, doc/crds), of Multus, and our own.
func neededDefinitions() []needed {
	return []needed{
		{ippool.PoolResource, []string{"spec.range", "spec.allocations.id", "spec.allocations.podref", "spec.allocations.ifname"}},
		{ippool.ReservationResource, []string{"spec.podref", "spec.ifname"}},
		{ippool.NADResource, []string{"spec.config"}},
		{v1alpha1.Resource(), slices.Sorted(maps.Keys(reportFields()))},
	}
}

// reportFields are the fields of a SandboxReport but its metadata.
func reportFields() map[string]bool {
	fields := map[string]bool{}
	addFields(fields, "", reflect.TypeFor[v1alpha1.SandboxReport]())
	return fields
}

func addFields(fields map[string]bool, prefix string, t reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[metav1.Time]() {
		return
	}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "" || name == "metadata" {
			continue
		}
		fields[prefix+name] = true
		addFields(fields, prefix+name+".", t.Field(i).Type)
	}
}

// readDefinition reads a definition. One that is not there is an error as the API server
// gives it.
func readDefinition(ctx context.Context, api dynamic.Interface, n needed) (*definition, error) {
	o, err := api.Resource(definitionResource).Get(ctx, n.name(), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return definitionOf(o, n.resource.Version)
}

// definitionOf reads what a definition serves, and the fields of one version.
func definitionOf(o *unstructured.Unstructured, used string) (*definition, error) {
	d := &definition{fields: map[string]bool{}}
	versions, _, err := unstructured.NestedSlice(o.Object, "spec", "versions")
	if err != nil {
		return nil, err
	}
	for _, v := range versions {
		version, _ := v.(map[string]any)
		name, _ := version["name"].(string)
		if version["served"] != true {
			continue
		}
		d.served = append(d.served, name)
		if schema, found, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema"); found && name == used {
			addSchema(d.fields, "", schema)
		}
	}
	return d, nil
}

func addSchema(fields map[string]bool, prefix string, schema map[string]any) {
	for _, inner := range []string{"items", "additionalProperties"} {
		if of, ok := schema[inner].(map[string]any); ok {
			addSchema(fields, prefix, of)
		}
	}
	if schema["x-kubernetes-preserve-unknown-fields"] == true {
		fields[prefix+"*"] = true
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, p := range properties {
		fields[prefix+name] = true
		if of, ok := p.(map[string]any); ok {
			addSchema(fields, prefix+name+".", of)
		}
	}
}

// lacks are the needed fields that a definition drops.
func (d *definition) lacks(n needed) []string {
	return slices.DeleteFunc(slices.Clone(n.fields), func(field string) bool {
		if d.fields[field] {
			return true
		}
		for prefix := field; prefix != ""; {
			i := strings.LastIndex(prefix, ".")
			prefix = prefix[:max(i, 0)]
			if d.fields[strings.TrimPrefix(prefix+".", ".")+"*"] {
				return true
			}
		}
		return false
	})
}

func (d *definition) serves(version string) bool { return slices.Contains(d.served, version) }
