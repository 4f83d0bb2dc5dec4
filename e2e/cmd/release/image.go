package main

import (
	"bytes"
	"encoding/json"
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
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	oci "github.com/opencontainers/image-spec/specs-go/v1"
)

// labels are those of deploy/Dockerfile.
func (r *release) labels() map[string]string {
	return map[string]string{
		oci.AnnotationTitle:       "ip-reconcile",
		oci.AnnotationDescription: "Finds and releases IP addresses that whereabouts has leaked",
		oci.AnnotationVersion:     r.version,
		oci.AnnotationRevision:    r.revision,
		oci.AnnotationLicenses:    "Apache-2.0",
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
	return product.String(), errors.Join(r.put("images.txt", []byte(list)), r.sbom("images_"+r.version, programs...))
}

func (r *release) layer(all []file) (v1.Layer, error) {
	packed, err := r.tgz(all)
	if err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed)), nil },
		tarball.WithMediaType(types.OCILayer))
}

// writeImage writes the index as skopeo does: one with other fields skopeo would replace, and its digest would change.
func (r *release) writeImage(suffix, user string, layers map[platform]v1.Layer) (hash v1.Hash, err error) {
	folder := filepath.Join(r.temp, "image"+suffix)
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return hash, err
	}
	index := oci.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: oci.MediaTypeImageIndex,
		Annotations: r.labels()}
	for _, p := range r.platforms {
		if layers[p] == nil {
			continue
		}
		image, err := r.platformImage(p, user, layers[p])
		if err != nil {
			return hash, err
		}
		of, err := image.Digest()
		if err != nil {
			return hash, err
		}
		size, err := image.Size()
		if err := errors.Join(err, path.WriteImage(image)); err != nil {
			return hash, err
		}
		index.Manifests = append(index.Manifests, oci.Descriptor{MediaType: oci.MediaTypeImageManifest, Size: size,
			Digest: digest.Digest(of.String()), Platform: &oci.Platform{OS: p.system, Architecture: p.arch}})
	}
	text, err := json.Marshal(index)
	if err != nil {
		return hash, err
	}
	hash, size, err := v1.SHA256(bytes.NewReader(text))
	if err := errors.Join(err, path.WriteBlob(hash, io.NopCloser(bytes.NewReader(text))),
		path.AppendDescriptor(v1.Descriptor{MediaType: types.OCIImageIndex, Digest: hash, Size: size,
			Annotations: map[string]string{oci.AnnotationRefName: r.version,
				"io.containerd.image.name": r.image + suffix + ":" + r.version}})); err != nil {
		return hash, err
	}
	all, err := files(folder, "")
	if err != nil {
		return hash, err
	}
	data, err := r.tar(all)
	return hash, errors.Join(err, r.put("ip-reconcile"+suffix+"-image_"+r.version+".tar", data))
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
