package harness

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sync/errgroup"
)

// ImportImage makes an image of static programs, whose first is the entrypoint, and imports it into the containerd of
// every worker by a name.
func (w *Cluster) ImportImage(ctx context.Context, name string, programs ...string) error {
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

func (c *ControlPlane) makeImage(name string, programs ...string) (archive string, err error) {
	archive = filepath.Join(c.run.dir, "image-"+randomHex(4)+".tar")
	if err := writeImage(archive, name, programs...); err != nil {
		return "", fmt.Errorf("making the image %s: %w", name, err)
	}
	return archive, nil
}

// keepImage imports an image into containerd, and again at each start: containerd may have lost its state.
func (r *Runtime) keepImage(ctx context.Context, archive string) error {
	r.mu.Lock()
	r.archives = append(r.archives, archive)
	r.mu.Unlock()
	return r.loadImage(ctx, archive)
}

func (r *Runtime) loadImage(ctx context.Context, archive string) error {
	out, err := r.Command(ctx, filepath.Join(r.bin, "ctr"), "--address", Socket, "--namespace", "k8s.io", "images",
		"import", archive).CombinedOutput()
	if err != nil {
		return fmt.Errorf("importing %s: %w: %s", filepath.Base(archive), err, out)
	}
	return nil
}

// writeImage writes a docker-archive with the programs in its root.
func writeImage(path, name string, programs ...string) error {
	contents := []file{
		folder("etc/"), folder("tmp/"), folder("proc/"), folder("sys/"), folder("dev/"),
		{name: "etc/passwd", content: []byte("root:x:0:0:root:/:/none\n")},
	}
	for _, p := range programs {
		contents = append(contents, file{name: filepath.Base(p), from: p})
	}
	layer := path + ".layer"
	defer os.Remove(layer)
	hash, err := writeArchive(layer, contents)
	if err != nil {
		return err
	}
	config := asJSON(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "created": "1970-01-01T00:00:00Z",
		"config": map[string]any{"Entrypoint": []string{"/" + filepath.Base(programs[0])}, "WorkingDir": "/",
			"Env": []string{"PATH=/"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hash}},
	})
	sum := sha256.Sum256(config)
	configName := hex.EncodeToString(sum[:]) + ".json"
	manifest := asJSON([]any{map[string]any{
		"Config": configName, "RepoTags": []string{name}, "Layers": []string{"layer.tar"},
	}})
	_, err = writeArchive(path, []file{
		{name: configName, content: config}, {name: "layer.tar", from: layer}, {name: "manifest.json", content: manifest},
	})
	return err
}

// A file of an archive has its content here, or from another file. It is a folder if its name ends with a slash.
type file struct {
	name    string
	content []byte
	from    string
}

func folder(name string) file { return file{name: name} }

// writeArchive writes a tar file and returns its hash.
func writeArchive(path string, files []file) (hash string, err error) {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	defer out.Close()
	sum := sha256.New()
	w := tar.NewWriter(io.MultiWriter(out, sum))
	for _, f := range files {
		if err := f.writeTo(w); err != nil {
			return "", err
		}
	}
	err = errors.Join(w.Close(), out.Close())
	return hex.EncodeToString(sum.Sum(nil)), err
}

func (f file) writeTo(w *tar.Writer) error {
	header := &tar.Header{Name: f.name, Mode: 0o755, Size: int64(len(f.content)), Typeflag: tar.TypeReg}
	if strings.HasSuffix(f.name, "/") {
		header.Typeflag = tar.TypeDir
	}
	var content io.Reader = bytes.NewReader(f.content)
	if f.from != "" {
		in, err := os.Open(f.from)
		if err != nil {
			return err
		}
		defer in.Close()
		info, err := in.Stat()
		if err != nil {
			return err
		}
		header.Size, content = info.Size(), in
	}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(w, content)
	return err
}
