package kube_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestList_Pages(t *testing.T) {
	f := newFakeAPI(t)
	f.answers[pods] = first(list("second", pod("a"), pod("b")), list("third", pod("c")), list("", pod("d")))
	o, err := f.cluster(t).List(t.Context())
	check(t, err)
	equal(t, "pods", podNames(o), []string{"a", "b", "c", "d"})
	var asked []string
	for _, r := range f.to(pods) {
		asked = append(asked, r.URL.Query().Get("limit")+" "+r.URL.Query().Get("continue")+
			r.URL.Query().Get("resourceVersion"))
	}
	equal(t, "asked for", fmt.Sprintf("%q", asked), `["500 " "500 second" "500 third"]`)
}

// The request for the second page does not wait until the first one is decoded.
func TestList_RequestsThePageAfter(t *testing.T) {
	f, requested := newFakeAPI(t), make(chan struct{})
	f.answers[pods] = func(w http.ResponseWriter, r *http.Request, n int) {
		if n == 2 {
			close(requested)
		}
		first(list("second", pod("a")), list("", pod("b")))(w, r, n)
	}
	c := f.cluster(t)
	c.OnPage = func() {
		f.mu.Lock()
		n := len(f.to(pods))
		f.mu.Unlock()
		if n > 0 {
			select {
			case <-requested:
			case <-time.After(10 * time.Second):
				t.Error("the first page is decoded, and the second one is not requested")
			}
		}
	}
	o, err := c.List(t.Context())
	check(t, err)
	equal(t, "pods", podNames(o), []string{"a", "b"})
}

// An object may have a field with the name of the token for the next page.
func TestList_WrongGuessOfTheToken(t *testing.T) {
	f := newFakeAPI(t)
	f.answers[pods] = func(w http.ResponseWriter, r *http.Request, n int) {
		switch r.URL.Query().Get("continue") {
		case "":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"100","continue":"second"},`+
				`"items":[{"metadata":{"namespace":"default","name":"a","uid":"u","continue":"wrong"}}]}`)
		case "second":
			list("", pod("b"))(w, r, n)
		default:
			list("", pod("c"))(w, r, n)
		}
	}
	o, err := f.cluster(t).List(t.Context())
	check(t, err)
	equal(t, "pods", podNames(o), []string{"a", "b"})
}

// Half a list is no list: missing objects would seem deleted.
func TestList_ExpiredToken(t *testing.T) {
	f := newFakeAPI(t)
	f.answers[pods] = first(list("old", pod("a"), pod("gone-by-then")), fails(http.StatusGone), list("new", pod("a")),
		list("", pod("b")))
	f.answers[pools] = first(list("old", pool("7")), fails(http.StatusGone), list("", pool("8")))
	o, err := f.cluster(t).List(t.Context())
	check(t, err)
	equal(t, "pods", podNames(o), []string{"a", "b"})
	equal(t, "pools", len(o.Pools), 1)
	equal(t, "the pool's version", o.Pools[0].ResourceVersion, "8")
	equal(t, "the first request after the 410 asks for", f.to(pods)[2].URL.Query().Get("continue"), "")
}

// listMeta is a page of objects with this metadata.
func listMeta(metadata map[string]any, items ...map[string]any) answer {
	return object(map[string]any{"apiVersion": "v1", "kind": "PodList", "metadata": metadata, "items": items})
}

// A list without the pods of a page would make their addresses stale.
func TestList_IncompletePages(t *testing.T) {
	type metadata = map[string]any
	endless := func(tokens ...string) answer {
		return func(w http.ResponseWriter, r *http.Request, n int) { list(tokens[n%len(tokens)], pod("a"))(w, r, n) }
	}
	for says, a := range map[string]answer{
		"2 objects remain": listMeta(metadata{"resourceVersion": "100", "remainingItemCount": 2}, pod("a")),
		"1 objects remain": first(list("more", pod("a")),
			listMeta(metadata{"resourceVersion": "100", "remainingItemCount": 1}, pod("b"))),
		"a page is of resourceVersion 101": first(list("more", pod("a")),
			listMeta(metadata{"resourceVersion": "101"}, pod("b"))),
		"the answer has no resourceVersion": first(list("more", pod("a")), listMeta(metadata{}, pod("b"))),
		"was read before":                   endless("again"),
		"so the list has no end":            endless("one", "two", "three"),
		`the answer is a "Table"`:           object(map[string]any{"kind": "Table", "apiVersion": "meta.k8s.io/v1"}),
		`is a "PartialObjectMetadataList"`: object(map[string]any{"kind": "PartialObjectMetadataList",
			"metadata": metadata{"resourceVersion": "100"}, "items": []any{}}),
		`its kind is "PodList"`: listMeta(metadata{"resourceVersion": "100"}, map[string]any{"kind": "PodList",
			"items": []any{pod("a")}}),
		`its kind is "Node"`: list("", map[string]any{"kind": "Node", "metadata": metadata{"name": "a"}}),
		"spec": list("", map[string]any{"kind": "Pod", "metadata": metadata{"namespace": "default", "name": "a"},
			"spec": 5}),
	} {
		f := newFakeAPI(t)
		f.answers[pods] = a
		o, err := f.cluster(t).List(t.Context())
		if err == nil {
			t.Errorf("%s: %v", says, podNames(o))
		} else if !strings.Contains(err.Error(), "pods") || !strings.Contains(err.Error(), says) {
			t.Errorf("the error does not say %q of pods: %v", says, err)
		}
	}
	f := newFakeAPI(t) // a page that is not the last may say how many remain
	f.answers[pods] = first(listMeta(metadata{"resourceVersion": "100", "continue": "more", "remainingItemCount": 1},
		pod("a")), list("", pod("b")))
	o, err := f.cluster(t).List(t.Context())
	check(t, err)
	equal(t, "pods", podNames(o), []string{"a", "b"})
}

func TestList_TokenAlwaysExpires(t *testing.T) {
	f := newFakeAPI(t)
	f.answers[pods] = func(w http.ResponseWriter, r *http.Request, n int) {
		if r.URL.Query().Get("continue") != "" {
			fails(http.StatusGone)(w, r, n)
			return
		}
		list("more", pod("a"))(w, r, n)
	}
	if o, err := f.cluster(t).List(t.Context()); err == nil {
		t.Errorf("half a list counts as all: %v", podNames(o))
	}
}

func TestList_TransientFailure(t *testing.T) {
	for name, failure := range transient {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeAPI(t)
			f.answers[pods] = first(failure, failure, list("more", pod("a")), failure, list("", pod("b")))
			f.answers[pools] = first(failure, list("", pool("7")))
			f.answers[nodes] = first(failure, list(""))
			f.answers[discovery] = first(failure, fails(http.StatusNotFound))
			o, err := f.cluster(t).List(t.Context())
			check(t, err)
			equal(t, "pods", podNames(o), []string{"a", "b"})
			equal(t, "pools", len(o.Pools), 1)
			equal(t, "reports are unreadable", !o.Reports.IsKnown(), false)
			equal(t, "warnings", o.Warnings, nil)
		})
	}
}

// impatient is a context that ends before client-go's retries.
func impatient(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// A permanent failure is an error or makes the source unknown, and never an empty list.
func TestList_PermanentFailure(t *testing.T) {
	failures := maps.Clone(transient)
	failures["401"], failures["400"] = fails(http.StatusUnauthorized), fails(http.StatusBadRequest)
	for _, path := range []string{pods, pools, reservations, nodes, nads} {
		for name, failure := range failures {
			t.Run(path[strings.LastIndex(path, "/")+1:]+", "+name, func(t *testing.T) {
				t.Parallel()
				for part, a := range map[string]answer{"all of it": failure, "the second page": first(list("more"), failure)} {
					f := newFakeAPI(t)
					f.answers[path] = a
					o, err := f.cluster(t).List(impatient(t))
					isUnknown := err == nil && (path == nodes && !o.Nodes.IsKnown() || path == nads && !o.NADs.IsKnown())
					if err == nil && !isUnknown {
						t.Errorf("%s failed, and List returned: %+v", part, o)
					}
				}
			})
		}
	}
}
