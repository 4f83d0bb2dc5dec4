package kube_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
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

// mostMemory runs f, and returns how much memory the process had at most. The garbage collector keeps it low.
func mostMemory(t *testing.T, f func()) (most uint64) {
	t.Helper()
	limit := debug.SetMemoryLimit(32 * mebi)
	defer debug.SetMemoryLimit(limit)
	debug.FreeOSMemory()
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			metrics.Read(samples)
			most = max(most, samples[0].Value.Uint64()+samples[1].Value.Uint64())
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
	f()
	close(done)
	wg.Wait()
	return most
}

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
	most := mostMemory(t, func() {
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
