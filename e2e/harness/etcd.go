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
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// Snapshot makes a backup of the running etcd, and returns its file.
func (w *Cluster) Snapshot() (file string, err error) {
	file = filepath.Join(w.run.dir, "snapshot-"+randomHex(4))
	_, err = command(w.parts, "etcdctl", "--endpoints="+w.url("http", 2379), "snapshot", "save", file)
	return file, err
}

// Restore restores a backup as etcdutl does. Without further flags resource versions run backwards. The control plane
// restarts, and nothing on the workers does.
func (w *Cluster) Restore(ctx context.Context, file string, flags ...string) error {
	w.stopControllers()
	w.StopAPI()
	w.StopEtcd()
	if err := os.RemoveAll(w.EtcdData()); err != nil {
		return err
	}
	peer := w.url("http", 2380)
	args := append([]string{"etcdutl", "snapshot", "restore", file, "--data-dir=" + w.EtcdData(),
		"--initial-cluster=default=" + peer, "--initial-advertise-peer-urls=" + peer}, flags...)
	if _, err := command(w.parts, args...); err != nil {
		return err
	}
	return errors.Join(w.StartEtcd(), w.StartAPI(ctx), w.startControllers())
}

// Revision is etcd's present revision.
func (w *Cluster) Revision(ctx context.Context) (int64, error) {
	list, err := w.client.CoreV1().ConfigMaps(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(list.ResourceVersion, 10, 64)
}

// CatchUp writes until the revision of before a restore has passed. Until then kubelets receive no new pods: they watch
// from their old revision.
func (w *Cluster) CatchUp(ctx context.Context, revision int64) error {
	var g errgroup.Group
	for range 8 {
		g.Go(func() error { return w.catchUp(ctx, revision) })
	}
	return g.Wait()
}

func (w *Cluster) catchUp(ctx context.Context, revision int64) error {
	name := "catch-up-" + randomHex(4)
	maps := w.client.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	m, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	for i := 0; err == nil; i++ {
		var now int64
		if now, err = strconv.ParseInt(m.ResourceVersion, 10, 64); err != nil || now > revision {
			break
		}
		m.Data = map[string]string{"write": fmt.Sprint(i)}
		m, err = maps.Update(ctx, m, metav1.UpdateOptions{})
	}
	return errors.Join(err, maps.Delete(ctx, name, metav1.DeleteOptions{}))
}
