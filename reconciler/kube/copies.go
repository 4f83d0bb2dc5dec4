package kube

import (
	"bytes"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/internal/lean"
)

// Copy is a LIST as the API server answered it: its resourceVersion, and the JSON of its objects.
type Copy struct {
	ResourceVersion string
	Objects         [][]byte
}

// Copies keeps the objects of each LIST that was read, for sysdump. Reduce returns the JSON of an object of a resource
// with the fields that are kept. It is called by several goroutines at once.
type Copies struct {
	Reduce func(resource string, object []byte) ([]byte, error)

	mu    sync.Mutex
	lists map[string]Copy // by resource
}

// List returns the last LIST of a resource.
func (c *Copies) List(resource string) Copy {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lists[resource]
}

// page appends the objects of a page. An object is copied, since the next page has the same buffer.
func (c *Copies) page(objects [][]byte, l listing, body []byte) ([][]byte, error) {
	if c == nil || l.form == asMetadata {
		return nil, nil
	}
	_, err := lean.List(body, "", func(object []byte, _ bool) error {
		reduced, err := c.Reduce(l.resource.Resource, object)
		objects = append(objects, bytes.Clone(reduced))
		return err
	})
	return objects, err
}

// end keeps a LIST that was read as a whole. One of a single object replaces the object in the LIST before it.
func (c *Copies) end(l listing, revision string, objects [][]byte) {
	if c == nil || l.form == asMetadata {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lists == nil {
		c.lists = map[string]Copy{}
	}
	if l.only == (metav1.ListOptions{}) {
		c.lists[l.resource.Resource] = Copy{revision, objects}
		return
	}
	all := c.lists[l.resource.Resource]
	for _, o := range objects {
		if i := slices.IndexFunc(all.Objects, func(old []byte) bool { return nameOf(old) == nameOf(o) }); i >= 0 {
			all.Objects[i] = o
		} else {
			all.Objects = append(all.Objects, o)
		}
	}
	c.lists[l.resource.Resource] = all
}

func nameOf(object []byte) types.NamespacedName {
	var m lean.Metadata
	r := lean.New(object)
	r.Object(func(field []byte) {
		if string(field) == "metadata" {
			m.Read(r, false)
		}
	})
	return m.NamespacedName
}
