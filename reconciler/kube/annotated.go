package kube

import (
	"bytes"
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// AnnotatedBy returns which program wrote an annotation of an object last, and when, by the object's managedFields. The
// program is "" where they do not say.
func (c *Cluster) AnnotatedBy(
	ctx context.Context, resource schema.GroupVersionResource, name types.NamespacedName, annotation string,
) (program string, at time.Time, err error) {
	err = c.call(ctx, func(ctx context.Context) error {
		o, err := c.metadata.Resource(resource).Namespace(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
		if err == nil {
			program, at = annotatedBy(o.ManagedFields, annotation)
		}
		return err
	})
	return program, at, err
}

func annotatedBy(fields []metav1.ManagedFieldsEntry, annotation string) (program string, at time.Time) {
	for _, f := range fields {
		if f.Time != nil && f.FieldsV1 != nil && bytes.Contains(f.FieldsV1.GetRawBytes(), []byte(`"f:`+annotation+`"`)) &&
			f.Time.After(at) {
			program, at = f.Manager, f.Time.UTC()
		}
	}
	return program, at
}
