package harness

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"
)

// ImportImage makes an image of static programs, of which the first is the
// entrypoint, and gives it to containerd, by the name that ContainerSpec.Image takes.
func (r *Runtime) ImportImage(ctx context.Context, name string, programs ...string) error {
	archive, err := r.Node.cluster.makeImage(name, programs...)
	if err != nil {
		return err
	}
	return r.keepImage(ctx, archive)
}

// ImportImage is Runtime.ImportImage for every worker.
func (w *WholeCluster) ImportImage(ctx context.Context, name string, programs ...string) error {
	archive, err := w.makeImage(name, programs...)
	if err != nil {
		return err
	}
	var together errgroup.Group
	for _, worker := range w.Workers {
		together.Go(func() error { return worker.keepImage(ctx, archive) })
	}
	return together.Wait()
}

func (c *Cluster) makeImage(name string, programs ...string) (archive string, err error) {
	archive = filepath.Join(c.run.dir, "image-"+randomHex(4)+".tar")
	if err := writeImage(archive, name, programs...); err != nil {
		return "", fmt.Errorf("making the image %s: %w", name, err)
	}
	return archive, nil
}

// keepImage gives containerd an image, and again whenever it is started: it may have
// lost its state.
func (r *Runtime) keepImage(ctx context.Context, archive string) error {
	r.mu.Lock()
	r.archives = append(r.archives, archive)
	r.mu.Unlock()
	return r.loadImage(ctx, archive)
}

func (r *Runtime) loadImage(ctx context.Context, archive string) error {
	out, err := r.Command(ctx, filepath.Join(r.bin, "ctr"), "--address", Socket, "--namespace", "k8s.io", "images", "import", archive).CombinedOutput()
	if err != nil {
		return fmt.Errorf("importing %s: %w: %s", filepath.Base(archive), err, out)
	}
	return nil
}

// writeImage writes a docker-archive with the programs in its root.
func writeImage(path, name string, programs ...string) error {
	files := []file{
		{"etc/", nil}, {"tmp/", nil}, {"proc/", nil}, {"sys/", nil}, {"dev/", nil},
		{"etc/passwd", []byte("root:x:0:0:root:/:/none\n")},
	}
	for _, p := range programs {
		content, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		files = append(files, file{filepath.Base(p), content})
	}
	layer, err := archive(files)
	if err != nil {
		return err
	}
	config := asJSON(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "created": "1970-01-01T00:00:00Z",
		"config": map[string]any{"Entrypoint": []string{"/" + filepath.Base(programs[0])}, "WorkingDir": "/", "Env": []string{"PATH=/"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer)}},
	})
	manifest := asJSON([]any{map[string]any{
		"Config": digest(config) + ".json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"},
	}})
	image, err := archive([]file{{digest(config) + ".json", config}, {"layer.tar", layer}, {"manifest.json", manifest}})
	if err != nil {
		return err
	}
	return os.WriteFile(path, image, 0o600)
}

// A file of an archive is a folder if its name ends with a slash.
type file struct {
	name    string
	content []byte
}

func archive(files []file) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: 0o755, Size: int64(len(f.content)), Typeflag: tar.TypeReg}
		if f.name[len(f.name)-1] == '/' {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), w.Close()
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
