package harness

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// contents is Kubernetes' content of etcd, by key.
type contents map[string]stored

type stored struct {
	value       []byte
	modRevision string
}

// errUnclear means that restoring etcd's content is not enough.
var errUnclear = errors.New("another must be started")

// contents reads etcd's content, with or without the values.
func (c *ControlPlane) contents(ctx context.Context, keysOnly bool) (contents, error) {
	all := contents{}
	for from := "/registry/"; ; {
		var page struct {
			KVs []struct {
				Key, Value  []byte
				ModRevision string `json:"mod_revision"`
			}
			More bool
		}
		ask := map[string]any{"key": []byte(from), "range_end": []byte("/registry0"), "limit": 200, "keys_only": keysOnly}
		if err := c.AskEtcd(ctx, "kv/range", ask, &page); err != nil {
			return nil, err
		}
		for _, kv := range page.KVs {
			all[string(kv.Key)] = stored{kv.Value, kv.ModRevision}
			from = string(kv.Key) + "\x00"
		}
		if !page.More {
			return all, nil
		}
	}
}

// putBack restores etcd's earlier content. API servers observe that as any other write. It returns errUnclear for an
// etcd that has grown, whose quota a test may measure, for policies and webhooks, which API servers follow late, and
// for a CRD that is being deleted.
func (c *ControlPlane) putBack(ctx context.Context, before contents) error {
	var status struct {
		DBSize int64 `json:"dbSize,string"`
	}
	if err := c.AskEtcd(ctx, "maintenance/status", struct{}{}, &status); err != nil {
		return err
	}
	if status.DBSize >= 10_000_000 {
		return errUnclear
	}
	now, err := c.contents(ctx, true)
	if err != nil {
		return err
	}
	var changes []any
	var changed []string
	for key := range now {
		if _, known := before[key]; !known {
			if strings.HasPrefix(key, "/registry/validating") || strings.HasPrefix(key, "/registry/mutating") {
				return errUnclear
			}
			changes = append(changes, map[string]any{"request_delete_range": map[string]any{"key": []byte(key)}})
			changed = append(changed, key)
		}
	}
	for key, was := range before {
		if now[key].modRevision != was.modRevision {
			if going, err := c.isDeletedCRD(ctx, key); err != nil || going {
				return cmp.Or(err, errUnclear)
			}
			changes = append(changes, map[string]any{"request_put": map[string]any{"key": []byte(key), "value": was.value}})
			changed = append(changed, key)
		}
	}
	const most = 100 // in a transaction; etcd accepts 128
	for from := 0; from < len(changes); from += most {
		to := min(from+most, len(changes))
		var done struct{ Header struct{ Revision string } }
		if err := c.AskEtcd(ctx, "kv/txn", map[string]any{"success": changes[from:to]}, &done); err != nil {
			return err
		}
		for _, key := range changed[from:to] {
			if was, known := before[key]; known {
				before[key] = stored{was.value, done.Header.Revision}
			}
		}
	}
	return nil
}

// isDeletedCRD reports whether the API server is deleting the CRD with this key.
func (c *ControlPlane) isDeletedCRD(ctx context.Context, key string) (bool, error) {
	if !strings.HasPrefix(key, "/registry/apiextensions.k8s.io/") {
		return false, nil
	}
	var found struct{ KVs []struct{ Value []byte } }
	err := c.AskEtcd(ctx, "kv/range", map[string]any{"key": []byte(key)}, &found)
	return len(found.KVs) > 0 && bytes.Contains(found.KVs[0].Value, []byte(`"deletionTimestamp"`)), err
}

// AskEtcd calls etcd by its gateway for JSON, without the API server.
func (c *ControlPlane) AskEtcd(ctx context.Context, call string, ask, answer any) error {
	body, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.EtcdServer()+"/v3/"+call, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd answers %s to %s: %s", response.Status, call, text)
	}
	return json.Unmarshal(text, answer)
}
