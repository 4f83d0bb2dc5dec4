package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// labels are those of deploy/Dockerfile.
func (r *release) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "ip-reconcile",
		"org.opencontainers.image.description": "Finds and releases IP addresses that whereabouts has leaked",
		"org.opencontainers.image.version":     r.version,
		"org.opencontainers.image.revision":    r.revision,
		"org.opencontainers.image.licenses":    "Apache-2.0",
	}
}

// images writes the two images of deploy/Dockerfile for all Linux platforms, each an archive of an OCI layout. It
// returns the digest of the product's.
func (r *release) images() (digest string, err error) {
	var programs []string
	layers := map[platform]v1.Layer{}
	for _, p := range r.platforms {
		if p.system != "linux" {
			continue
		}
		var all []file
		for _, command := range p.commands() {
			path := filepath.Join(r.bin(p), command)
			data, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			programs, all = append(programs, path), append(all, file{command, 0o755, data})
		}
		if layers[p], err = r.layer(all); err != nil {
			return "", err
		}
	}
	product, err := r.writeImage("", "65532:65532", layers)
	if err != nil {
		return "", err
	}
	dropIn, err := r.writeImage("-drop-in", "0:0", layers)
	if err != nil {
		return "", err
	}
	list := fmt.Sprintf("%s:%s@%s\n%[1]s-drop-in:%[2]s@%[4]s\n", r.image, r.version, product, dropIn)
	return product, errors.Join(r.put("images.txt", []byte(list)), r.sbom("images_"+r.version, programs...))
}

func (r *release) layer(all []file) (v1.Layer, error) {
	packed, err := r.tgz(all)
	if err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil },
		tarball.WithMediaType(types.OCILayer))
}

func (r *release) writeImage(suffix, user string, layers map[platform]v1.Layer) (digest string, err error) {
	index := v1.ImageIndex(empty.Index)
	for _, p := range r.platforms {
		if layers[p] == nil {
			continue
		}
		image, err := r.platformImage(p, user, layers[p])
		if err != nil {
			return "", err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.system, Architecture: p.arch}}})
	}
	index = mutate.Annotations(index, r.labels()).(v1.ImageIndex)
	hash, err := index.Digest()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(r.temp, "image"+suffix)
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return "", err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": r.version,
		"io.containerd.image.name":          r.image + suffix + ":" + r.version,
	})); err != nil {
		return "", err
	}
	all, err := files(folder, "")
	if err != nil {
		return "", err
	}
	data, err := r.tar(all)
	if err != nil {
		return "", err
	}
	return hash.String(), r.put("ip-reconcile"+suffix+"-image_"+r.version+".tar", data)
}

func (r *release) platformImage(p platform, user string, layer v1.Layer) (v1.Image, error) {
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.ConfigFile(base, &v1.ConfigFile{OS: p.system, Architecture: p.arch,
		Created: v1.Time{Time: r.created},
		Config:  v1.Config{User: user, Labels: r.labels(), WorkingDir: "/", Entrypoint: []string{"/ip-reconcile"}},
		RootFS:  v1.RootFS{Type: "layers"},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{Layer: layer,
		History: v1.History{Created: v1.Time{Time: r.created}, CreatedBy: "make release"}})
}
