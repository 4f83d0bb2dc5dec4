package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// newClient returns a client for objects in JSON. client-go's typed clients load every kind into memory.
func newClient(config *rest.Config) (rest.Interface, error) {
	config = metadata.ConfigFor(config)
	config.Timeout = 10 * time.Second
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("set up a client for %s: %w", config.Host, err)
	}
	return client, nil
}

// object is one object at the API server, as this agent knows it.
type object[T any] struct {
	client           rest.Interface
	path, kind, name string
	verb             string // verb of a write, for errors
	field            string // the field that each write of an agent changes, as managedFields name it

	meta        metav1.ObjectMeta // as last answered; without a ResourceVersion the object does not exist
	lastVersion objectVersion     // last answered version, also of a deleted object
}

func (o *object[T]) get(ctx context.Context) (*T, error) {
	stored, err := o.do(ctx, o.client.Get().AbsPath(o.path, o.name))
	if err != nil {
		return nil, fmt.Errorf("get %s %s: %w", o.kind, o.name, err)
	}
	return stored, nil
}

// put creates the object, or replaces the last answered version. The API server refuses unknown fields.
func (o *object[T]) put(ctx context.Context, content *T) (*T, error) {
	body, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	request := o.client.Put().AbsPath(o.path, o.name)
	if o.meta.ResourceVersion == "" {
		request = o.client.Post().AbsPath(o.path)
	}
	return o.do(ctx, request.Param("fieldValidation", metav1.FieldValidationStrict).Body(body))
}

// do sends a request and returns the object in the answer. If the object cannot be decoded, it returns only the
// metadata: somebody else or a newer agent wrote the rest.
func (o *object[T]) do(ctx context.Context, r *rest.Request) (*T, error) {
	result := r.Do(ctx)
	if err := result.Error(); err != nil { // Raw would lose the server's message
		return nil, err
	}
	text, err := result.Raw()
	if err != nil {
		return nil, err
	}
	var head metav1.PartialObjectMetadata
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("decode the answer: %w", err)
	}
	o.meta = head.ObjectMeta
	stored := new(T)
	if json.Unmarshal(text, stored) == nil {
		return stored, nil
	}
	if text, err = json.Marshal(head); err != nil {
		return nil, err
	}
	stored = new(T)
	return stored, json.Unmarshal(text, stored)
}

// writeTries limits the tries of one write. Each try after the first follows a conflict.
const writeTries = 3

// write puts content until it meets no conflict. content receives the metadata to keep, which others may have set.
// check is called after each answer; read is true if the object was read and not written.
func (o *object[T]) write(
	ctx context.Context, content func(metav1.ObjectMeta) *T, check func(stored *T, read bool) error,
) (*T, error) {
	for try := 1; ; try++ {
		stored, err := o.put(ctx, content(metav1.ObjectMeta{
			Name: o.name, ResourceVersion: o.meta.ResourceVersion, Labels: o.meta.Labels, Annotations: o.meta.Annotations,
			OwnerReferences: o.meta.OwnerReferences, Finalizers: o.meta.Finalizers,
		}))
		switch {
		case err == nil:
			return stored, check(stored, false)
		case try == writeTries:
			return nil, fmt.Errorf("%s %s %s: %w", o.verb, o.kind, o.name, err)
		case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
			if _, err := o.reread(ctx, check); err != nil {
				return nil, err
			}
		case isAbsent(err) && o.meta.ResourceVersion != "":
			o.meta.ResourceVersion = "" // deleted, or lost in a restore: the answer to a new object shows which
		default:
			return nil, fmt.Errorf("%s %s %s: %w", o.verb, o.kind, o.name, err)
		}
	}
}

// isAbsent reports whether the API server, and not a proxy in between, answers that an object does not exist.
func isAbsent(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// reread reads the object after it changed unexpectedly. It returns nil if the object does not exist.
func (o *object[T]) reread(ctx context.Context, check func(stored *T, read bool) error) (*T, error) {
	stored, err := o.get(ctx)
	if isAbsent(err) {
		o.meta = metav1.ObjectMeta{}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return stored, check(stored, true)
}

// objectVersion is a version of an object, and the time when an agent last wrote it, by the API server's clock.
type objectVersion struct {
	resourceVersion string
	writtenAt       time.Time
}

// version returns the version of the last answer. Its time is that of the newest write of an agent. Writes by others do
// not count: the entry of an annotation goes when the annotation is removed, so the newest time of all runs backwards.
func (o *object[T]) version() objectVersion {
	return objectVersion{o.meta.ResourceVersion, podstate.FieldTime(o.meta.ManagedFields, o.field)}
}

// advance records the answered version. reason says why etcd must have been restored since the one before, "" if not.
// Either the resourceVersion ran backwards, or the last write of an object that was read is older than known.
func (o *object[T]) advance(read bool) (reason string) {
	before := o.lastVersion
	o.lastVersion = o.version()
	switch now := o.lastVersion; {
	case before.resourceVersion == "":
	case isOlder(now.resourceVersion, before.resourceVersion):
		reason = fmt.Sprintf("%s %s is at resourceVersion %s after %s",
			o.kind, o.name, now.resourceVersion, before.resourceVersion)
	case read && !now.writtenAt.IsZero() && now.writtenAt.Before(before.writtenAt.Add(-v1alpha1.MaxClockDifference)):
		// The answer to one write may be lost, and the next answer may come from the other server.
		reason = fmt.Sprintf("%s %s was last written at %s after it was written at %s", o.kind, o.name,
			now.writtenAt.UTC().Format(time.RFC3339), before.writtenAt.UTC().Format(time.RFC3339))
	}
	return reason
}

func isOlder(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}
