package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
