package kube_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/internal/heaptest"
)

const mebi = 1 << 20

// largeList answers LISTs of a kind as an API server does: by limit and continue. sizes are those of the objects. It
// writes an object at a time, so that the test's server needs no memory for them.
func largeList(kind string, fields func(padding string) string, sizes []int) answer {
	return func(w http.ResponseWriter, r *http.Request, _ int) {
		w.Header().Set("Content-Type", "application/json")
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		to, more := min(from+limit, len(sizes)), ""
		if to < len(sizes) {
			more = strconv.Itoa(to)
		}
		fmt.Fprintf(w, `{"kind":"%sList","apiVersion":"v1","metadata":{"resourceVersion":"100","continue":%q},"items":[`,
			kind, more)
		for i := from; i < to; i++ {
			before, after, _ := strings.Cut(fields("|"), "|")
			fmt.Fprintf(w, `{"kind":%q,"metadata":{"namespace":"tenant","name":"o-%d","uid":"u","resourceVersion":"9"},%s`, kind,
				i, before)
			for n := sizes[i]; n > 0; n -= 1000 {
				if _, err := io.WriteString(w, strings.Repeat("x", min(n, 1000))); err != nil {
					return
				}
			}
			_, _ = io.WriteString(w, after+"}")
			if i+1 < to {
				_, _ = io.WriteString(w, ",")
			}
		}
		_, _ = io.WriteString(w, "]}")
	}
}

func largePod(padding string) string {
	return `"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"A","value":"` + padding +
		`"}]}]},"status":{"phase":"Pending"}`
}

func largeNAD(padding string) string { return `"spec":{"config":"` + padding + `"}` }

// A tenant's variable or definition may have 1.4 MB, and a page 500 of them.
func TestList_PagesAreBoundedByBytes(t *testing.T) {
	f := newFakeAPI(t)
	podSizes, nadSizes := make([]int, 720), make([]int, 60)
	for i := range podSizes {
		if podSizes[i] = 100; i >= 600 {
			podSizes[i] = 1_400_000
		}
	}
	for i := range nadSizes {
		nadSizes[i] = 1_400_000
	}
	f.answers[pods] = largeList("Pod", largePod, podSizes)
	f.answers[nads] = largeList("NetworkAttachmentDefinition", largeNAD, nadSizes)
	f.answers[pools] = list("", pool("7"))
	c := f.cluster(t)
	most := heaptest.Peak(32*mebi, func() {
		o, err := c.List(t.Context())
		check(t, err)
		equal(t, "pods", len(o.Pods), len(podSizes))
		equal(t, "the last pod", o.Pods[types.NamespacedName{Namespace: "tenant", Name: "o-719"}] != nil, true)
		equal(t, "definitions", len(o.NADs.Or(nil)), len(nadSizes))
		equal(t, "pools", len(o.Pools), 1)
	})
	if most > 80*mebi {
		t.Errorf("%d MiB were in use", most/mebi)
	}
}

// One object that is larger than a page is read as a whole.
func TestList_LargestObject(t *testing.T) {
	f := newFakeAPI(t)
	f.answers[pods] = largeList("Pod", largePod, []int{100, 20 * mebi, 100, 20 * mebi})
	o, err := f.cluster(t).List(t.Context())
	check(t, err)
	equal(t, "pods", len(o.Pods), 4)
	var limits []string
	for _, r := range f.to(pods) {
		limits = append(limits, r.URL.Query().Get("continue")+"/"+r.URL.Query().Get("limit"))
	}
	equal(t, "continue and limit", limits[:4], []string{"/500", "/62", "/7", "/1"})
}
