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
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

const (
	fileBytes = 4 << 20 // from which the next objects are in another file
	logLines  = 20_000
	logBytes  = 4 << 20
	askFor    = 30 * time.Second // for one request
)

// Dump writes a bundle. What cannot be collected is in the manifest, with the cause, and all else is collected.
type Dump struct {
	Manifest *document.Sysdump
	Core     kubernetes.Interface
	Since    time.Duration // how far back logs go
	Agents   int           // how many agents' logs are taken at most

	out      *tar.Writer
	packed   *gzip.Writer
	writeErr error
}

// Open begins the archive.
func (d *Dump) Open(file io.Writer) {
	d.packed = gzip.NewWriter(file)
	d.out = tar.NewWriter(d.packed)
	d.Limit("objects have the fields that judging reads, and no other annotation, label, environment or Secret")
	d.Limit("logs have the last %s, %d lines and %d bytes of each container", d.Since, logLines, logBytes)
}

// Limit notes what the bundle does not have on purpose.
func (d *Dump) Limit(format string, args ...any) {
	d.Manifest.Limits = append(d.Manifest.Limits, fmt.Sprintf(format, args...))
}

// Close writes the manifest and ends the archive.
func (d *Dump) Close() error {
	text, err := json.MarshalIndent(d.Manifest, "", "  ")
	d.add("manifest.json", text)
	d.Manifest.Files = d.Manifest.Files[:len(d.Manifest.Files)-1]
	return errors.Join(err, d.writeErr, d.out.Close(), d.packed.Close())
}

// Fail notes that a part could not be collected.
func (d *Dump) Fail(part string, err error) {
	d.Manifest.Missing = append(d.Manifest.Missing, fmt.Sprintf("%s: %v", part, err))
}

// Text adds a file.
func (d *Dump) Text(name string, text []byte, err error) {
	if len(text) > 0 {
		d.add(name, text)
	}
	if err != nil {
		d.Fail(name, err)
	}
}

func (d *Dump) add(name string, text []byte) {
	head := &tar.Header{Name: "sysdump/" + name, Mode: 0o600, Size: int64(len(text)), ModTime: d.Manifest.ObservedAt}
	err := d.out.WriteHeader(head)
	if err == nil {
		_, err = d.out.Write(text)
	}
	d.writeErr = errors.Join(d.writeErr, err)
	d.Manifest.Files = append(d.Manifest.Files, name)
}

// Objects adds the objects of an observation, in Lists.
func (d *Dump) Objects(o *judge.Observation, e snapshot.Encoder) error {
	var list bytes.Buffer
	files := 0
	flush := func() {
		if list.Len() > 0 {
			files++
			list.WriteString("\n]}\n")
			d.add(fmt.Sprintf("objects-%03d.json", files), list.Bytes())
			list.Reset()
		}
	}
	facts, err := e.Encode(o, func(object any) error {
		text, err := json.Marshal(object)
		separator := ",\n"
		if list.Len() == 0 {
			separator = `{"apiVersion":"v1","kind":"List","items":[` + "\n"
		}
		list.WriteString(separator)
		list.Write(text)
		if list.Len() > fileBytes {
			flush()
		}
		return err
	})
	flush()
	d.Manifest.Judged = facts
	return err
}

// Pods adds the metrics of the reconciler's pods, and the logs of those and of some agents.
func (d *Dump) Pods(ctx context.Context, namespaces ...string) {
	agents := 0
	slices.Sort(namespaces)
	for _, namespace := range slices.Compact(namespaces) {
		list, err := d.Core.CoreV1().Pods(namespace).List(ctx,
			metav1.ListOptions{LabelSelector: kube.NameLabel + "=" + kube.Product})
		if err != nil {
			d.Fail("pods of namespace "+namespace, err)
			continue
		}
		for i := range list.Items {
			p := &list.Items[i]
			if p.Labels[kube.ComponentLabel] != "agent" {
				d.metrics(ctx, p)
			} else if agents++; agents > d.Agents {
				continue
			}
			d.logs(ctx, p)
		}
	}
	if agents > d.Agents {
		d.Limit("logs of %d of %d node agents are omitted: --max-agents", agents-d.Agents, agents)
	}
}

// metrics adds what a pod serves at the port that is called metrics. With --metrics-secure it may refuse.
func (d *Dump) metrics(ctx context.Context, p *corev1.Pod) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	for _, c := range p.Spec.Containers {
		scheme := "http"
		if slices.Contains(c.Args, "--metrics-secure") {
			scheme = "https"
		}
		for _, port := range c.Ports {
			if port.Name == "metrics" {
				text, err := d.Core.CoreV1().Pods(p.Namespace).
					ProxyGet(scheme, p.Name, fmt.Sprint(port.ContainerPort), "metrics", nil).DoRaw(ctx)
				d.Text("metrics/"+p.Name+".txt", text, err)
			}
		}
	}
}

// logs adds the logs of a pod's containers, and of the container before one that was restarted.
func (d *Dump) logs(ctx context.Context, p *corev1.Pod) {
	for _, c := range p.Spec.Containers {
		d.log(ctx, p, c.Name, false)
	}
	for _, s := range p.Status.ContainerStatuses {
		if s.RestartCount > 0 {
			d.log(ctx, p, s.Name, true)
		}
	}
}

func (d *Dump) log(ctx context.Context, p *corev1.Pod, container string, previous bool) {
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	options := &corev1.PodLogOptions{Container: container, Previous: previous, Timestamps: true,
		SinceSeconds: ptr.To(int64(d.Since.Seconds())), TailLines: ptr.To[int64](logLines),
		LimitBytes: ptr.To[int64](logBytes)}
	text, err := d.Core.CoreV1().Pods(p.Namespace).GetLogs(p.Name, options).DoRaw(ctx)
	name := "logs/" + p.Name + "-" + container
	if previous {
		name += "-previous"
	}
	d.Text(name+".log", text[:min(len(text), logBytes)], err)
}

// Names returns a function that gives pods, namespaces, nodes and workloads other names, except the given namespaces.
// A key gives the same names each time. Without the key nobody can test a guess.
func Names(key []byte, except ...string) func(kind, name string) string {
	return func(kind, name string) string {
		if kind == "namespace" && slices.Contains(except, name) {
			return name
		}
		hash := hmac.New(sha256.New, key)
		hash.Write([]byte(kind + "/" + name))
		return kind + "-" + hex.EncodeToString(hash.Sum(nil)[:6])
	}
}
