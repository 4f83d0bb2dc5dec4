package kube_test

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// withResource begins an object with the resource that Reduce got.
func withResource(resource string, object []byte) ([]byte, error) {
	return append([]byte(resource+" "), object...), nil
}

// A copy is what was judged: all pages of one list, and none of a list that ended early. It is read as JSON.
func TestCopies_OfAllPages(t *testing.T) {
	f := newFakeAPI(t)
	f.answers[pods] = first(list("old", pod("a"), pod("gone-by-then")), fails(http.StatusGone), list("new", pod("a")),
		list("", pod("b")))
	f.answers[nodes] = fails(http.StatusForbidden)
	f.answers[pools] = list("", pool("7"))
	c := f.cluster(t)
	c.Copies = &kube.Copies{Reduce: withResource}
	o, err := c.List(t.Context())
	check(t, err)
	copied := c.Copies.List("pods")
	equal(t, "pods", len(copied.Objects), len(o.Pods))
	for i, name := range []string{"a", "b"} {
		if text := string(copied.Objects[i]); !strings.HasPrefix(text, "pods {") || !strings.Contains(text, `"name":"`+name) {
			t.Errorf("the copy of %s is %s", name, text)
		}
	}
	equal(t, "the revision of the pods", copied.ResourceVersion, "100")
	equal(t, "pools", len(c.Copies.List("ippools").Objects), 1)
	equal(t, "nodes, which are forbidden", len(c.Copies.List("nodes").Objects), 0)
	equal(t, "pods are requested as", f.to(pods)[0].Header.Get("Accept"), "application/json")
}

// A report that is read again because of its Lease replaces the one of the list, and so does the Lease.
func TestCopies_OfWhatIsReadAgain(t *testing.T) {
	f := newFakeAPI(t)
	old, current := time.Now().Add(-time.Minute), time.Now()
	f.answers[discovery] = serves("ip-reconcile.dev/v1alpha1")
	f.answers[pools] = list("", pool("7"))
	f.answers[reports] = first(list("", report("worker-1", "1", old), report("worker-2", "5", old)),
		list("", report("worker-1", "2", current)))
	f.answers[leases] = list("", leaseOf(t, "worker-1", current, current, current))
	c := f.cluster(t)
	c.Copies = &kube.Copies{Reduce: func(_ string, object []byte) ([]byte, error) { return object, nil }}
	o, err := c.List(t.Context())
	check(t, err)
	equal(t, "fresh", o.Reports.Or(nil)[0].IsFresh(o.Now), true)
	copied := c.Copies.List("sandboxreports")
	equal(t, "reports", len(copied.Objects), 2)
	equal(t, "Leases", len(c.Copies.List("leases").Objects), 1)
	if !bytes.Contains(copied.Objects[0], []byte(`"resourceVersion":"2"`)) {
		t.Errorf("the copy is %s", copied.Objects[0])
	}
}

func TestCopies_NotReduced(t *testing.T) {
	f := newFakeAPI(t)
	f.answers[pools] = list("", pool("7"))
	f.answers[pods] = list("", pod("a"))
	c := f.cluster(t)
	c.Copies = &kube.Copies{Reduce: func(resource string, object []byte) ([]byte, error) {
		if resource == "pods" {
			return nil, errors.New("nonsense")
		}
		return object, nil
	}}
	if _, err := c.List(t.Context()); err == nil || !strings.Contains(err.Error(), "copy pods: decode a List: nonsense") {
		t.Error(err)
	}
}
