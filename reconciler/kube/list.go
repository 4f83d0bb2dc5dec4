package kube

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
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
	// parallel is how many requests are under way at once: a live read is made while
	// whereabouts' Lease is held, and ADDs wait for that.
	parallel = 32
)

// The forms in which a LIST is asked for.
const (
	asJSON     = "application/json"
	asProtobuf = "application/vnd.kubernetes.protobuf, " + asJSON
	asMetadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1, " + asJSON + ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// listing is a LIST: of what, and in which form.
type listing struct {
	resource  schema.GroupVersionResource
	namespace string
	only      metav1.ListOptions // selects objects; all where it is empty
	form      string             // asJSON if empty
	first     int64              // how many objects the first page has; largestPage if zero
}

// A decoder decodes a page of a LIST. What it returns may keep nothing of the body.
type decoder[T any] func(body []byte) ([]T, metav1.ListMeta, error)

// each is the decoder of what is decoded object by object.
func each[T any](decode func([]byte, func(T)) (metav1.ListMeta, error)) decoder[T] {
	return func(body []byte) (page []T, meta metav1.ListMeta, err error) {
		meta, err = decode(body, func(o T) { page = append(page, o) })
		return page, meta, err
	}
}

// list reads a LIST page by page, by quorum, and returns its objects and its revision. Each page
// is decoded before the next is asked for, so that one at a time is in memory.
// One that takes so long that its revision is compacted begins again: half a list
// is no list.
//
// client-go's tools/pager would need each page as an object, has one size for all
// pages, and reads the whole list at once where its revision is compacted.
func list[T any](ctx context.Context, c *Cluster, l listing, decode decoder[T]) (all []T, revision string, err error) {
	opts := l.only
	opts.Limit = cmp.Or(l.first, largestPage)
	var body bytes.Buffer // of one page after the other
	for restarts := 0; ; {
		err := c.call(ctx, func(ctx context.Context) error {
			request := c.client.Get().AbsPath(pathOf(l.resource, l.namespace)).VersionedParams(&opts, scheme.ParameterCodec)
			return read(ctx, request, cmp.Or(l.form, asJSON), &body)
		})
		if apierrors.IsResourceExpired(err) && restarts < 3 {
			restarts++
			opts.Continue, all = "", nil
			continue
		}
		if err != nil {
			return nil, "", err
		}
		page, meta, err := decode(body.Bytes())
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", l.resource.Resource, err)
		}
		if meta.ResourceVersion == "" { // every list of an API server has one
			return nil, "", fmt.Errorf("the answer to a LIST of %s has no resourceVersion: it is not an API server's", l.resource.Resource)
		}
		if c.OnPage != nil {
			c.OnPage()
		}
		all = append(all, page...)
		if opts.Continue = meta.Continue; opts.Continue == "" {
			return all, meta.ResourceVersion, nil
		}
		opts.Limit = nextLimit(opts.Limit, body.Len())
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

// Version is which of its versions an object is: at the same one it is as it was read.
type Version struct {
	UID             types.UID
	ResourceVersion string
}

// listChanged reads the objects of a resource, by namespace and name, and returns the
// revision of the list. What is known at the very version at which it is now is
// taken as it was read: a version is given once, save by an etcd that was restored,
// which the revision tells; and a patch tests the entry as well. The others are read
// again, each by name, or all where they are many or nothing is known.
func listChanged[T any](ctx context.Context, c *Cluster, l listing, known []T, id func(T) (types.NamespacedName, Version), decode decoder[T]) (all []T, revision string, err error) {
	if len(known) == 0 {
		return list(ctx, c, l, decode)
	}
	heads, revision, err := list(ctx, c, listing{resource: l.resource, form: asMetadata}, each(podstate.DecodeHeads))
	if err != nil {
		return nil, "", err
	}
	current := map[types.NamespacedName]Version{}
	for _, o := range heads {
		current[types.NamespacedName{Namespace: o.Namespace, Name: o.Name}] = Version{o.UID, o.ResourceVersion}
	}
	isKnown := map[types.NamespacedName]bool{}
	for _, o := range known {
		if name, version := id(o); current[name] == version {
			isKnown[name] = true
			all = append(all, o)
		}
	}
	if changed := len(current) - len(isKnown); changed > max(parallel, len(current)/10) {
		return list(ctx, c, l, decode)
	}
	var mu sync.Mutex
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for name := range current {
		if isKnown[name] {
			continue
		}
		g.Go(func() error {
			one := l
			one.namespace, one.only = name.Namespace, named(name.Name)
			found, _, err := list(gctx, c, one, decode)
			mu.Lock()
			defer mu.Unlock()
			if len(found) == 1 {
				all = append(all, found[0])
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, "", err
	}
	slices.SortFunc(all, func(a, b T) int {
		x, _ := id(a)
		y, _ := id(b)
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
	})
	return all, revision, nil
}
