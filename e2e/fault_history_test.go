//go:build slow

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// recordEtcd begins a history that etcd itself tells, from a revision on: API servers
// may end meanwhile, and so may etcd, which remembers.
func (s *stage) recordEtcd(ctx context.Context, resource schema.GroupVersionResource, from uint64) *history {
	h := &history{client: s.of(resource), of: map[string][]version{}, news: make(chan struct{})}
	prefix := "/registry/" + resource.Group + "/" + resource.Resource + "/"
	go func() {
		for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
			from = h.readEtcd(ctx, s.EtcdServer(), prefix, from)
		}
	}()
	return h
}

// readEtcd reads what happened from a revision on, until that breaks off, and returns the
// revision from which to go on.
func (h *history) readEtcd(ctx context.Context, server, prefix string, from uint64) uint64 {
	ask, _ := json.Marshal(map[string]any{"create_request": map[string]any{
		"key": []byte(prefix), "range_end": append([]byte(prefix[:len(prefix)-1]), prefix[len(prefix)-1]+1), "start_revision": fmt.Sprint(from),
	}})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server+"/v3/watch", bytes.NewReader(ask))
	if err != nil {
		return from
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return from
	}
	defer resp.Body.Close()
	for answers := json.NewDecoder(resp.Body); ; {
		var answer struct {
			Result struct {
				CompactRevision string `json:"compact_revision"`
				Events          []struct {
					Type string
					KV   struct {
						Key, Value  []byte
						ModRevision uint64 `json:"mod_revision,string"`
					}
				}
			}
		}
		if answers.Decode(&answer) != nil {
			return from
		}
		h.mu.Lock()
		if compacted := answer.Result.CompactRevision; compacted != "" && compacted != "0" {
			h.broken = fmt.Errorf("etcd has forgotten what was before revision %s", compacted)
		}
		for _, e := range answer.Result.Events {
			v := version{revision: e.KV.ModRevision}
			if e.Type != "DELETE" {
				v.object = &unstructured.Unstructured{}
				if err := json.Unmarshal(e.KV.Value, &v.object.Object); err != nil {
					h.broken = err
				}
				v.object.SetResourceVersion(fmt.Sprint(v.revision))
			}
			name := path.Base(string(e.KV.Key))
			h.of[name] = append(h.of[name], v)
			from = v.revision + 1
		}
		close(h.news)
		h.news = make(chan struct{})
		h.mu.Unlock()
	}
}
