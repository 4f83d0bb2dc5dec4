package informers

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// An API server ignores the limit of a LIST with resourceVersion 0, which is what a Reflector asks for by itself. So
// the caches list by quorum and page by page, and read no large page to its end.
func TestList_OfLargeObjects(t *testing.T) {
	const count = 60
	var mostWritten atomic.Int64
	padding := strings.Repeat("x", 1400)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		written := 0
		query := r.URL.Query()
		limit, _ := strconv.Atoi(query.Get("limit"))
		if query.Get("resourceVersion") == "0" || limit == 0 {
			limit = count
		}
		from, _ := strconv.Atoi(query.Get("continue"))
		to, more := min(from+limit, count), ""
		if to < count {
			more = strconv.Itoa(to)
		}
		kind, version, field := "Pod", "v1", `"spec":{"containers":[{"name":"c","image":"`
		after := `"}]}`
		if strings.HasSuffix(r.URL.Path, ippool.NADResource.Resource) {
			kind, version = "NetworkAttachmentDefinition", ippool.NADResource.GroupVersion().String()
			field, after = `"spec":{"config":"`, `"}`
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"kind":"%sList","apiVersion":%q,"metadata":{"resourceVersion":"100","continue":%q},"items":[`,
			kind, version, more)
		for i := from; i < to; i++ {
			fmt.Fprintf(w, `{"kind":%q,"apiVersion":%q,"metadata":{"namespace":"tenant","name":"o-%d","uid":"u-%d",`+
				`"resourceVersion":"9"},%s`, kind, version, i, i, field)
			for range 1000 {
				if _, err := io.WriteString(w, padding); err != nil {
					return
				}
				written += len(padding)
				for most := mostWritten.Load(); most < int64(written); most = mostWritten.Load() {
					mostWritten.CompareAndSwap(most, int64(written))
				}
			}
			_, _ = io.WriteString(w, after+"}"+strings.Repeat(",", min(1, to-i-1)))
		}
		_, _ = io.WriteString(w, "]}")
	}))
	t.Cleanup(api.Close)
	config, log := &rest.Config{Host: api.URL, QPS: -1}, slog.New(slog.DiscardHandler)
	cluster, err := kube.New(config, kube.Settings{Namespace: "kube-system", Timeout: 30 * time.Second, Log: log})
	must(t, err)
	s := New(cluster, config, log, func(string) {})
	for _, resource := range []string{"pods", ippool.NADResource.Resource} {
		requests := s.store(resource).listWatch(nil, nil)
		list, err := requests.ListWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
		must(t, err)
		objects, err := meta.ExtractList(list)
		must(t, err)
		equal(t, resource, len(objects), count)
		last := objects[count-1].(*item)
		equal(t, "the last one", fmt.Sprint(last.NamespacedName, last.UID, last.ResourceVersion), "tenant/o-59u-599")
		switch o := last.parsed.(type) {
		case *podstate.Pod:
			equal(t, "its name", o.Name, "o-59")
		case *ippool.NAD:
			equal(t, "it is unreadable", o.Problem != "", true)
		default:
			t.Errorf("%T", o)
		}
	}
	if most := mostWritten.Load(); most > 32<<20 { // 16 MiB, and what the sockets keep
		t.Errorf("%d MiB of one answer were read", most>>20)
	}
}
