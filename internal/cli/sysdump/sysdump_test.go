package sysdump_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/sysdump"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

// answer is what a pod serves by the proxy.
type answer struct {
	text string
	err  error
}

func (a answer) DoRaw(context.Context) ([]byte, error) { return []byte(a.text), a.err }

func (a answer) Stream(context.Context) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(a.text)), a.err
}

func ours(name, component string, restarts int32) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: name, Labels: map[string]string{
			"app.kubernetes.io/name": "ip-reconcile", "app.kubernetes.io/component": component}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main",
			Ports: []corev1.ContainerPort{{Name: "metrics", ContainerPort: 9745}}}}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "main", RestartCount: restarts}}},
	}
}

// written is a bundle: the sizes of its files by their names, its manifest, and itself.
func written(t *testing.T, collect func(*sysdump.Dump)) (files map[string]int, m document.Sysdump, whole []byte) {
	t.Helper()
	var out bytes.Buffer
	d := sysdump.New(&out, document.NewHeader(document.KindSysdump, "", document.Cluster{}, Now))
	collect(d)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	whole, files = slices.Clone(out.Bytes()), map[string]int{}
	packed, err := gzip.NewReader(&out)
	if err != nil {
		t.Fatal(err)
	}
	for in := tar.NewReader(packed); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files, d.Manifest, whole
		}
		if err != nil {
			t.Fatal(err)
		}
		files[head.Name] = int(head.Size)
	}
}

func TestPods_EachPartFailsAlone(t *testing.T) {
	objects := []runtime.Object{ours("reconciler-0", "reconciler", 0), ours("reconciler-1", "reconciler", 2)}
	for i := range 12 {
		objects = append(objects, ours(fmt.Sprintf("agent-%02d", i), "agent", 0))
	}
	core := fake.NewClientset(objects...)
	core.AddProxyReactor("pods", func(a clienttesting.Action) (bool, rest.ResponseWrapper, error) {
		if a.(clienttesting.ProxyGetAction).GetName() == "reconciler-1" {
			return true, answer{err: errors.New("refused")}, nil
		}
		return true, answer{text: "a_metric 1\n"}, nil
	})
	core.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return a.GetNamespace() == "agents", nil, errors.New("forbidden")
	})
	files, m, _ := written(t, func(d *sysdump.Dump) { d.Pods(t.Context(), core, "system", "agents", "system") })
	want := []string{"sysdump/logs/reconciler-0-main.log", "sysdump/logs/reconciler-1-main-previous.log",
		"sysdump/logs/reconciler-1-main.log", "sysdump/manifest.json", "sysdump/metrics/reconciler-0.txt"}
	for i := range 10 { // of 12
		want = append(want, fmt.Sprintf("sysdump/logs/agent-%02d-main.log", i),
			fmt.Sprintf("sysdump/metrics/agent-%02d.txt", i))
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	missing := []string{"pods of namespace agents: forbidden", "metrics/reconciler-1.txt: refused"}
	if !slices.Equal(m.Missing, missing) || len(m.Files) != len(want) {
		t.Errorf("missing are %q of %q", m.Missing, m.Files)
	}
}

// Also the largest file is one that fits into memory: no more than that is in memory at once.
func TestObjects_Size(t *testing.T) {
	const pods = 20_000
	o := Observe(UsualPool)
	UsualPod(Carrying("10.0.0.5"))(o)
	usual := o.Pods[types.NamespacedName{Namespace: "default", Name: "web-0"}]
	for i := range pods {
		p := *usual
		p.Name, p.UID = fmt.Sprintf("web-%d", i), fmt.Sprintf("%08x-7c1e-4c4a-9d3b-%012x", i*2654435761, i*40503*i)
		p.RuntimeUID, p.Node, p.ResourceVersion = p.UID, fmt.Sprint("worker-", i%300), fmt.Sprint(i*7)
		o.Pods[p.NamespacedName] = &p
	}
	files, _, whole := written(t, func(d *sysdump.Dump) { d.Objects(o.Observation, snapshot.Encoder{}) })
	if len(whole) > 10<<20 || len(files) < 3 {
		t.Errorf("%d bytes in %d files", len(whole), len(files))
	}
	s, err := snapshot.OpenStream("bundle", bytes.NewReader(whole), Now, "")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.List(t.Context()); err != nil || len(again.Pods) != pods || len(again.Pools) != 1 {
		t.Errorf("the bundle has %d pods and %d pools: %v", len(again.Pods), len(again.Pools), err)
	}
	for name, size := range files {
		if size > 4<<20+64<<10 {
			t.Errorf("%s has %d bytes", name, size)
		}
	}
}

func TestNames(t *testing.T) {
	one, other := sysdump.Names("key", "kube-system"), sysdump.Names("other key")
	if got := one("namespace", "kube-system"); got != "kube-system" {
		t.Errorf("a namespace that keeps its name is %s", got)
	}
	name := one("pod", "web-0")
	if name != one("pod", "web-0") || name == other("pod", "web-0") || name == one("pod", "web-1") ||
		name == one("node", "web-0") || !strings.HasPrefix(name, "pod-") || len(name) != len("pod-")+12 {
		t.Errorf("%s is not a name that depends on key, kind and name", name)
	}
}
