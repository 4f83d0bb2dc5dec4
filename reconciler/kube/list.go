package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
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

	"github.com/ip-reconcile/ip-reconcile/internal/lean"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

const (
	largestPage = 500      // how many objects a page has at most, since two pages are in memory as a whole
	pageBytes   = 4 << 20  // the size from which the next page has fewer objects
	mostBytes   = 16 << 20 // how much is read of a page; a larger one is requested again with fewer objects
	// aheadBytes is the size of a page up to which the next one is requested before this one is decoded.
	aheadBytes       = 2 * pageBytes
	firstPageOfPools = 2 // how many pools the first page has: a pool may have some megabytes
	// parallel is how many requests are in progress at once. ADDs wait for a live read under whereabouts' Lease.
	parallel = 32
)

// The Accept headers of LISTs.
const (
	asJSON     = "application/json"
	asProtobuf = "application/vnd.kubernetes.protobuf, " + asJSON
	asHeads    = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	asMetadata = "application/vnd.kubernetes.protobuf" + asHeads + ", " + asJSON + asHeads
)

type listing struct {
	resource  schema.GroupVersionResource
	namespace string
	only      metav1.ListOptions // selects objects; empty for all
	form      string             // asJSON if empty
	first     int64              // size of the first page; largestPage if zero
	versions  *versions          // receives those of pools, reports and Leases; nil for other kinds
}

// decoder decodes a page of a LIST, and calls each with every object. An object must not refer to the body.
type decoder[T any] func(body []byte, each func(T)) (metav1.ListMeta, error)

// page is a page of a LIST that was requested.
type page struct {
	token    string // that it was requested with
	body     []byte
	err      error
	received chan struct{} // closed when body and err are set
}

// errLargePage means that a page has more than mostBytes. Tenants decide how large objects are.
var errLargePage = fmt.Errorf("a page has more than %d bytes", mostBytes)

// List reads a LIST of objects of a kind for the watch caches, as an observation does; name is "" for all objects.
// isProto is whether decode reads protobuf, too.
func List[T any](ctx context.Context, c *Cluster, resource schema.GroupVersionResource, namespace, name string,
	isProto bool, decode func(body []byte, each func(T)) (metav1.ListMeta, error),
) (all []T, revision string, err error) {
	l := listing{resource: resource, namespace: namespace, only: byName(name)}
	if isProto {
		l.form = asProtobuf
	}
	return list(ctx, c, l, decode)
}

// list reads a LIST page by page, by quorum, and returns its objects and its revision. It decodes a page while the next
// one is on its way, so two pages are in memory, or one that is large. A page of more than mostBytes is requested again
// with an eighth of its objects, down to a single one, which is read as a whole. If the revision is compacted
// meanwhile, the list starts again: half a list is no list. A last page that says that objects remain, a token that
// comes twice, and pages of different revisions are errors. client-go's tools/pager needs a page as an object, has one
// size for all pages, and reads the whole list at once after a compaction.
func list[T any](ctx context.Context, c *Cluster, l listing, decode decoder[T]) (all []T, revision string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // of a page that nobody needs
	if c.Copies != nil && l.form == asProtobuf {
		l.form = asJSON
	}
	var copies [][]byte
	opts, spare := l.only, []byte(nil)
	opts.Limit = cmp.Or(l.first, largestPage)
	p, requested := c.request(ctx, l, opts, nil), map[string]bool{}
	for restarts := 0; ; {
		<-p.received
		if errors.Is(p.err, errLargePage) {
			opts.Continue, opts.Limit = p.token, max(1, opts.Limit/8)
			p = c.request(ctx, l, opts, p.body)
			continue
		}
		if apierrors.IsResourceExpired(p.err) && restarts < 3 {
			restarts++
			opts.Continue, all, revision, copies = "", nil, "", nil
			clear(requested)
			p = c.request(ctx, l, opts, p.body)
			continue
		}
		if p.err != nil {
			return nil, "", p.err
		}
		opts.Limit = nextLimit(opts.Limit, len(p.body))
		var next *page
		if opts.Continue = lean.NextPage(p.body); opts.Continue != "" && len(p.body) <= aheadBytes {
			next, spare = c.request(ctx, l, opts, spare), nil
		}
		before := len(all)
		meta, err := decode(p.body, func(o T) { all = append(all, c.Intern(o).(T)) })
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", l.resource.Resource, err)
		}
		if copies, err = c.Copies.page(copies, l, p.body); err != nil {
			return nil, "", fmt.Errorf("copy %s: %w", l.resource.Resource, err)
		}
		requested[p.token] = true
		if err := checkPage(&meta, revision, requested); err != nil {
			return nil, "", fmt.Errorf("list %s: %w", l.resource.Resource, err)
		}
		revision = meta.ResourceVersion
		notePage(l, all[before:], revision)
		c.OnPage()
		if opts.Continue = meta.Continue; opts.Continue == "" {
			c.Copies.end(l, revision, copies)
			return all, revision, nil
		}
		if next == nil || next.token != meta.Continue {
			p = c.request(ctx, l, opts, p.body)
		} else {
			p, spare = next, p.body
		}
	}
}

// checkPage checks that a page continues a list of a revision, "" for the first page. requested are the tokens of the
// pages until now.
func checkPage(page *metav1.ListMeta, revision string, requested map[string]bool) error {
	switch remaining := page.RemainingItemCount; {
	case page.ResourceVersion == "": // every list of an API server has one
		return errors.New("the answer has no resourceVersion, so it is not an API server's")
	case revision != "" && page.ResourceVersion != revision:
		return fmt.Errorf("a page is of resourceVersion %s, and the pages before are of %s, so objects may be missing",
			page.ResourceVersion, revision)
	case page.Continue == "" && remaining != nil && *remaining != 0:
		return fmt.Errorf("the last page says that %d objects remain (remainingItemCount), and does not say where to "+
			"continue, so the list is incomplete", *remaining)
	case page.Continue != "" && requested[page.Continue]:
		return errors.New("a page continues with a page that was read before, so the list has no end")
	}
	return nil
}

// request requests a page, whose body may use the buffer.
func (c *Cluster) request(ctx context.Context, l listing, opts metav1.ListOptions, buffer []byte) *page {
	p := &page{token: opts.Continue, received: make(chan struct{})}
	most := mostBytes
	if opts.Limit == 1 {
		most = math.MaxInt - 1
	}
	go func() {
		defer close(p.received)
		p.err = c.call(ctx, func(ctx context.Context) (err error) {
			request := c.requestOf(l).VersionedParams(&opts, scheme.ParameterCodec)
			p.body, err = read(ctx, request, cmp.Or(l.form, asJSON), buffer, most)
			return err
		})
	}()
	return p
}

func (c *Cluster) requestOf(l listing) *rest.Request {
	root := "/apis"
	if l.resource.Group == "" {
		root = "/api"
	}
	return c.client.Get().AbsPath(root, l.resource.Group, l.resource.Version).MaxRetries(0).
		NamespaceIfScoped(l.namespace, l.namespace != "").Resource(l.resource.Resource)
}

// read reads an answer of at most so many bytes into the buffer, which grows to no more.
func read(ctx context.Context, request *rest.Request, form string, buffer []byte, most int) ([]byte, error) {
	answer, err := request.SetHeader("Accept", form).Stream(ctx)
	if err != nil {
		return buffer, err
	}
	defer answer.Close()
	for body := buffer[:0]; ; {
		if len(body) == cap(body) {
			body = slices.Grow(body, max(1, min(max(len(body), 64<<10), most+1-len(body))))
		}
		n, err := answer.Read(body[len(body):cap(body)])
		switch body = body[:len(body)+n]; {
		case len(body) > most:
			return body, errLargePage
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return body, fmt.Errorf("read an answer: %w", err)
		}
	}
}

// nextLimit is how many objects make a page of pageBytes, by the page before, and stepwise: the next may be larger.
func nextLimit(limit int64, bytes int) int64 {
	return max(1, min(limit*pageBytes/int64(max(bytes, 1)), 4*limit, largestPage))
}

func indexed[K comparable, T any](all []T, name func(T) K) map[K]T {
	by := make(map[K]T, len(all))
	for _, o := range all {
		by[name(o)] = o
	}
	return by
}

// byName selects the object of a name; "" selects all.
func byName(name string) metav1.ListOptions {
	if name == "" {
		return metav1.ListOptions{}
	}
	return metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
}

// Version identifies a version of an object.
type Version struct {
	UID             types.UID
	ResourceVersion string
}

// listChanged returns the objects of a resource, by namespace and name, and the revision of the list. It lists the
// metadata, and takes objects whose version is known as they are: only a restored etcd, which the revision shows, gives
// a version twice. Other objects are read by name, or all are listed if they are many.
func listChanged[T any](
	ctx context.Context, c *Cluster, l listing, known []T, id func(T) (types.NamespacedName, Version), decode decoder[T],
) (all []T, revision string, err error) {
	if len(known) == 0 {
		return list(ctx, c, l, decode)
	}
	what := listing{resource: l.resource, form: asMetadata, versions: l.versions}
	heads, revision, err := list(ctx, c, what, podstate.DecodeHeads)
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
			one.namespace, one.only = name.Namespace, byName(name.Name)
			found, _, err := list(gctx, c, one, decode)
			mu.Lock()
			defer mu.Unlock()
			if len(found) > 1 {
				return fmt.Errorf("list %s: %d objects are named %s", l.resource.Resource, len(found), name)
			}
			all = append(all, found...)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, "", err
	}
	slices.SortFunc(all, func(a, b T) int {
		x, _ := id(a)
		y, _ := id(b)
		return cmp.Compare(x.String(), y.String())
	})
	return all, revision, nil
}
