package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// newClient is a client for requests of whole objects in JSON. client-go's typed clients bring
// every kind that Kubernetes has into memory.
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

// object is one object of the API server's, as this agent knows it.
type object[T any] struct {
	client           rest.Interface
	path, kind, name string
	verb             string // of a write, for errors

	meta   metav1.ObjectMeta // as last answered; no ResourceVersion: the object is not there
	newest objectVersion     // that was answered. An object that is created again must still be newer.
}

// get reads the object.
func (o *object[T]) get(ctx context.Context) (*T, error) {
	stored, err := o.do(ctx, o.client.Get().AbsPath(o.path, o.name))
	if err != nil {
		return nil, fmt.Errorf("get %s %s: %w", o.kind, o.name, err)
	}
	return stored, nil
}

// put creates the object, or replaces it in the version that was last answered. The API server refuses fields that
// it does not know.
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

// do makes a request and returns the object that was answered. Of one that cannot be decoded only the metadata is
// there: someone, or a newer agent, wrote what this one does not understand.
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
		return nil, fmt.Errorf("the answer cannot be read: %w", err)
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

// writeTries limits the attempts of one write, of which each but the first follows a conflict.
const writeTries = 3

// write puts an object with this metadata, which is what others may have set, until it meets no conflict. After each
// answer it calls check, with whether the object was only read.
func (o *object[T]) write(ctx context.Context, content func(metav1.ObjectMeta) *T, check func(stored *T, read bool) error) (*T, error) {
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
		case apierrors.IsNotFound(err) && o.meta.ResourceVersion != "":
			o.meta.ResourceVersion = "" // someone deleted it, or a restore did: the answer to a new one shows which
		default:
			return nil, fmt.Errorf("%s %s %s: %w", o.verb, o.kind, o.name, err)
		}
	}
}

// reread reads the object that is not what was written last, by someone's hand or by a restore; nil if it is not
// there.
func (o *object[T]) reread(ctx context.Context, check func(stored *T, read bool) error) (*T, error) {
	stored, err := o.get(ctx)
	if apierrors.IsNotFound(err) {
		o.meta = metav1.ObjectMeta{}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return stored, check(stored, true)
}

// objectVersion is a version of an object, and when the API server wrote it.
type objectVersion struct {
	resourceVersion string
	writtenAt       time.Time
}

// versionOf returns the version of an object as it was answered. Its time is that of the
// newest write by anybody.
func versionOf(m metav1.ObjectMeta) objectVersion {
	newest := objectVersion{resourceVersion: m.ResourceVersion}
	for _, f := range m.ManagedFields {
		if f.Time != nil && f.Time.After(newest.writtenAt) {
			newest.writtenAt = f.Time.Time
		}
	}
	return newest
}

// maxClockSkew is by how much the clocks of two API servers may differ: the answer to a
// write may be lost, and that of the next come from the other one.
const maxClockSkew = 10 * time.Second

// advance moves the newest version on to what was answered, and returns the version before it. sign says how it
// shows that etcd was restored, "" if it does not: the resourceVersion ran backwards, or the last write of an object
// that was read is of an earlier time, where a restore has moved the versions on.
func (o *object[T]) advance(read bool) (before objectVersion, sign string) {
	before, o.newest = o.newest, versionOf(o.meta)
	switch now := o.newest; {
	case before.resourceVersion == "":
	case older(now.resourceVersion, before.resourceVersion):
		sign = fmt.Sprintf("%s %s is at resourceVersion %s after %s", o.kind, o.name, now.resourceVersion, before.resourceVersion)
	case read && !now.writtenAt.IsZero() && now.writtenAt.Before(before.writtenAt.Add(-maxClockSkew)):
		sign = fmt.Sprintf("%s %s was last written at %s after it was written at %s", o.kind, o.name,
			now.writtenAt.UTC().Format(time.RFC3339), before.writtenAt.UTC().Format(time.RFC3339))
	}
	return before, sign
}

// lostAfter returns when the newest write was made, if that was after t and the write is lost. Else, and where that
// cannot be found out, it returns t.
func (o *object[T]) lostAfter(ctx context.Context, t time.Time) time.Time {
	if !o.newest.writtenAt.After(t) {
		return t
	}
	if _, err := o.get(ctx); apierrors.IsNotFound(err) || err == nil && older(o.meta.ResourceVersion, o.newest.resourceVersion) {
		return o.newest.writtenAt
	}
	return t
}

func older(version, than string) bool {
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}
