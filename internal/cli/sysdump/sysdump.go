// Package sysdump writes the bundle of `ip-reconcile sysdump`: one archive with what a bug report needs, which
// --snapshot reads.
package sysdump

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

const (
	fileBytes = 4 << 20 // of logs or metrics at most
	logLines  = 20_000
	logAge    = 24 * time.Hour
	maxAgents = 10 // whose logs are taken
	askFor    = 30 * time.Second
)

// Dump writes a bundle. What cannot be collected is in the manifest, with the cause, and all else is collected.
type Dump struct {
	Manifest view.Sysdump

	out    *tar.Writer
	packed *gzip.Writer
	err    error // of writing
}

// New begins an archive.
func New(file io.Writer, h view.Header) *Dump {
	packed := gzip.NewWriter(file)
	return &Dump{Manifest: view.Sysdump{Header: h, Manifest: snapshot.NewManifest(), Files: []string{},
		Missing: []string{}}, out: tar.NewWriter(packed), packed: packed}
}

// Close adds the manifest and ends the archive.
func (d *Dump) Close() error {
	text, err := json.MarshalIndent(d.Manifest, "", "  ")
	d.Add("manifest.json", text, nil)
	return errors.Join(err, d.err, d.out.Close(), d.packed.Close())
}

// Add adds a file with some text. The error is why the file is missing or incomplete.
func (d *Dump) Add(name string, text []byte, err error) {
	if err != nil {
		d.Manifest.Missing = append(d.Manifest.Missing, fmt.Sprintf("%s: %v", name, err))
	}
	if len(text) > 0 {
		d.Manifest.Files = append(d.Manifest.Files, name)
		head := &tar.Header{Name: "sysdump/" + name, Mode: 0o600, Size: int64(len(text)), ModTime: d.Manifest.ObservedAt}
		headErr := d.out.WriteHeader(head)
		_, err = d.out.Write(text)
		d.err = errors.Join(d.err, headErr, err)
	}
}

// Objects adds an observation, a file for each kind. list returns the objects of a resource as they were read.
func (d *Dump) Objects(o *facts.Observation, list func(resource string) snapshot.List, e snapshot.Encoder) {
	m, err := e.Encode(o, list, func(name string, text []byte) { d.Add(name, text, nil) })
	if err != nil {
		d.Add("objects", nil, err)
		return
	}
	d.Manifest.Manifest, d.Manifest.ObservedAt = m, o.Now
}

// Pods adds metrics and logs of the pods of this product, and of agents those of the first.
func (d *Dump) Pods(ctx context.Context, core kubernetes.Interface, namespaces ...string) {
	agents := 0
	slices.Sort(namespaces)
	for _, namespace := range slices.Compact(namespaces) {
		only := metav1.ListOptions{LabelSelector: kube.NameLabel + "=" + kube.Product}
		list, err := core.CoreV1().Pods(namespace).List(ctx, only)
		if err != nil {
			d.Add("pods of namespace "+namespace, nil, err)
			continue
		}
		for _, p := range list.Items {
			if p.Labels[kube.ComponentLabel] == "agent" {
				if agents++; agents > maxAgents {
					continue
				}
			}
			d.pod(ctx, core.CoreV1().Pods(namespace), &p)
		}
	}
}

// pod adds the metrics and logs of a pod. A container that was restarted has two logs. Metrics may need a token.
func (d *Dump) pod(ctx context.Context, pods typedcorev1.PodInterface, p *corev1.Pod) {
	get := func(name string, request rest.ResponseWrapper, read func(io.Reader) ([]byte, error)) {
		ctx, cancel := context.WithTimeout(ctx, askFor)
		defer cancel()
		var text []byte
		body, err := request.Stream(ctx)
		if err == nil {
			text, err = read(body)
			err = errors.Join(err, body.Close())
		}
		d.Add(name, text, err)
	}
	logs := func(container, suffix string) {
		get("logs/"+p.Name+"-"+container+suffix+".log", pods.GetLogs(p.Name, &corev1.PodLogOptions{Container: container,
			Previous: suffix != "", Timestamps: true, SinceSeconds: ptr.To(int64(logAge.Seconds())),
			TailLines: ptr.To[int64](logLines)}), newest)
	}
	for _, c := range p.Spec.Containers {
		logs(c.Name, "")
		scheme := map[bool]string{false: "http", true: "https"}[slices.Contains(c.Args, "--metrics-secure")]
		for _, port := range c.Ports {
			if port.Name == "metrics" {
				get("metrics/"+p.Name+".txt", pods.ProxyGet(scheme, p.Name, fmt.Sprint(port.ContainerPort), "metrics", nil),
					bounded)
			}
		}
	}
	for _, s := range p.Status.ContainerStatuses {
		if s.RestartCount > 0 {
			logs(s.Name, "-previous")
		}
	}
}

// newest reads a log, of which it keeps the last lines: kubelet's own limit would cut these.
func newest(r io.Reader) (kept []byte, err error) {
	part := make([]byte, 64<<10)
	for err == nil {
		var n int
		n, err = r.Read(part)
		if kept = append(kept, part[:n]...); len(kept) > 2*fileBytes {
			kept = append(kept[:0], kept[len(kept)-fileBytes:]...)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if len(kept) > fileBytes {
		kept = kept[len(kept)-fileBytes:]
		kept = kept[bytes.IndexByte(kept, '\n')+1:] // the first line is not whole
	}
	return kept, err
}

// bounded reads the beginning, and says if that is not all.
func bounded(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, fileBytes+1))
	if len(text) > fileBytes {
		return text[:fileBytes], fmt.Errorf("cut after %d MiB", fileBytes>>20)
	}
	return text, err
}

// Names returns a function that gives pods, namespaces, nodes and workloads other names, except the given namespaces.
// A key gives the same names each time. Without the key nobody can test a guess.
func Names(key string, except ...string) func(kind, name string) string {
	return func(kind, name string) string {
		if kind == "namespace" && slices.Contains(except, name) {
			return name
		}
		hash := hmac.New(sha256.New, []byte(key))
		hash.Write([]byte(kind + "/" + name))
		return kind + "-" + hex.EncodeToString(hash.Sum(nil)[:6])
	}
}
