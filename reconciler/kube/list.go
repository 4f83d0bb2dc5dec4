package kube

import (
	"bytes"
	"context"
	"fmt"
	"path"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

const (
	// largestPage is how many objects a page has: the API server takes longer for
	// each object of a larger one, and a page is in memory as a whole.
	largestPage = 500
	// pageBytes is how large a page becomes before the next has fewer objects.
	pageBytes = 4 << 20
	// firstPageOfPools is how many the first page has: a pool may have some megabytes.
	firstPageOfPools = 2
)

// The forms in which a LIST is asked for.
const (
	asJSON     = "application/json"
	asProtobuf = "application/vnd.kubernetes.protobuf, " + asJSON
	asMetadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, " + asJSON + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// listing is a LIST: of what, in which form, and what decodes its pages.
type listing struct {
	resource  schema.GroupVersionResource
	namespace string
	only      metav1.ListOptions // selects objects; all where it is empty
	form      string
	first     int64 // how many objects the first page has; largestPage if zero
	// take decodes a page. Nothing of the body may be kept.
	take func(body []byte) (metav1.ListMeta, error)
	// restart throws away what was taken in so far.
	restart func()
}

// list reads a LIST page by page, by quorum, and returns its revision. Each page
// is decoded before the next is asked for, so that one at a time is in memory.
// One that takes so long that its revision is compacted begins again: half a list
// is no list.
//
// client-go's tools/pager would need each page as an object, has one size for all
// pages, and reads the whole list at once where its revision is compacted.
func (c *Cluster) list(ctx context.Context, l listing) (revision string, err error) {
	opts := l.only
	if opts.Limit = l.first; opts.Limit == 0 {
		opts.Limit = largestPage
	}
	var page bytes.Buffer // of one page after the other
	for restarts := 0; ; {
		err := c.call(ctx, func(ctx context.Context) error {
			return read(ctx, c.client.Get().AbsPath(pathOf(l.resource, l.namespace)).VersionedParams(&opts, scheme.ParameterCodec), l.form, &page)
		})
		switch {
		case apierrors.IsResourceExpired(err) && restarts < 3:
			restarts++
			opts.Continue = ""
			l.restart()
			continue
		case err != nil:
			return "", err
		}
		meta, err := l.take(page.Bytes())
		if err != nil {
			return "", fmt.Errorf("%s: %w", l.resource.Resource, err)
		}
		if meta.ResourceVersion == "" { // every list of an API server has one
			return "", fmt.Errorf("the answer to a LIST of %s has no resourceVersion: it is not an API server's", l.resource.Resource)
		}
		if c.OnPage != nil {
			c.OnPage()
		}
		if opts.Continue = meta.Continue; opts.Continue == "" {
			return meta.ResourceVersion, nil
		}
		opts.Limit = nextLimit(opts.Limit, page.Len())
	}
}

// read reads the answer to a request.
func read(ctx context.Context, request *rest.Request, form string, into *bytes.Buffer) error {
	answer, err := request.SetHeader("Accept", form).Stream(ctx)
	if err != nil {
		return err
	}
	defer answer.Close()
	into.Reset()
	if _, err = into.ReadFrom(answer); err != nil {
		return fmt.Errorf("read an answer: %w", err)
	}
	return nil
}

// nextLimit is how many objects make a page of pageBytes, by the page before; it
// grows step by step, since the next ones may be larger.
func nextLimit(limit int64, bytes int) int64 {
	return max(1, min(limit*pageBytes/int64(max(bytes, 1)), 4*limit, largestPage))
}

// named selects the object of that name only, or all where there is none.
func named(name string) metav1.ListOptions {
	if name == "" {
		return metav1.ListOptions{}
	}
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
}

func pathOf(r schema.GroupVersionResource, namespace string) string {
	root := path.Join("/apis", r.Group, r.Version)
	if r.Group == "" {
		root = path.Join("/api", r.Version)
	}
	if namespace != "" {
		root = path.Join(root, "namespaces", namespace)
	}
	return path.Join(root, r.Resource)
}

// listCustom reads a LIST of custom resources, which come as JSON.
func listCustom[T any](ctx context.Context, c *Cluster, l listing, decode func([]byte) ([]T, metav1.ListMeta, error)) (all []T, revision string, err error) {
	l.form = asJSON
	l.restart = func() { all = nil }
	l.take = func(body []byte) (metav1.ListMeta, error) {
		page, meta, err := decode(body)
		all = append(all, page...)
		return meta, err
	}
	revision, err = c.list(ctx, l)
	return all, revision, err
}

func (c *Cluster) listPods(ctx context.Context, namespace string, only metav1.ListOptions, into map[types.NamespacedName]*podstate.Pod) error {
	_, err := c.list(ctx, listing{
		resource: corev1.SchemeGroupVersion.WithResource("pods"), namespace: namespace, only: only, form: asProtobuf,
		take: func(body []byte) (metav1.ListMeta, error) {
			return podstate.DecodePods(body, func(p *podstate.Pod) { into[p.NamespacedName] = p })
		},
		restart: func() { clear(into) },
	})
	return err
}

func (c *Cluster) listNodes(ctx context.Context, only metav1.ListOptions) (nodes []*podstate.Node, revision string, err error) {
	revision, err = c.list(ctx, listing{
		resource: corev1.SchemeGroupVersion.WithResource("nodes"), only: only, form: asProtobuf,
		take: func(body []byte) (metav1.ListMeta, error) {
			return podstate.DecodeNodes(body, func(n *podstate.Node) { nodes = append(nodes, n) })
		},
		restart: func() { nodes = nil },
	})
	return nodes, revision, err
}

// listLeases lists the Leases in the reconciler's own namespace.
func (c *Cluster) listLeases(ctx context.Context) (map[string]*coordinationv1.Lease, error) {
	leases := map[string]*coordinationv1.Lease{}
	_, err := c.list(ctx, listing{
		resource: coordinationv1.SchemeGroupVersion.WithResource("leases"), namespace: c.LeaseNamespace, form: asProtobuf,
		take: func(body []byte) (metav1.ListMeta, error) {
			return podstate.DecodeLeases(body, func(l *coordinationv1.Lease) { leases[l.Name] = l })
		},
		restart: func() { clear(leases) },
	})
	return leases, err
}

// Version is which of its versions an object is: at the same one it is as it was read.
type Version struct {
	UID             types.UID
	ResourceVersion string
}

// listVersions lists the metadata alone, and returns the revision of the list.
func (c *Cluster) listVersions(ctx context.Context, resource schema.GroupVersionResource) (map[types.NamespacedName]Version, string, error) {
	versions := map[types.NamespacedName]Version{}
	revision, err := c.list(ctx, listing{
		resource: resource, form: asMetadata,
		take: func(body []byte) (metav1.ListMeta, error) {
			return podstate.DecodeHeads(body, func(o *metav1.PartialObjectMetadata) {
				versions[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = Version{o.UID, o.ResourceVersion}
			})
		},
		restart: func() { clear(versions) },
	})
	return versions, revision, err
}
