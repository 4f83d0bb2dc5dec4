package sysdump_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/sysdump"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
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

// written is a bundle: its files by their names, and itself.
func written(t *testing.T, collect func(*sysdump.Dump)) (files map[string]string, whole []byte) {
	t.Helper()
	var out bytes.Buffer
	d := sysdump.New(&out, view.NewHeader(view.KindSysdump, "v1.0.0", view.Cluster{}, Now))
	collect(d)
	check(t, d.Close())
	whole, files = slices.Clone(out.Bytes()), map[string]string{}
	packed, err := gzip.NewReader(&out)
	check(t, err)
	for in := tar.NewReader(packed); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files, whole
		}
		check(t, err)
		text, err := io.ReadAll(in)
		check(t, err)
		files[head.Name] = string(text)
	}
}

var update = flag.Bool("update", false, "write testdata/bundle.txt")

// The list of files and the manifest of a bundle. A part that fails does not stop the others, and ten of twelve agents
// are in it.
func TestBundle(t *testing.T) {
	pods := []runtime.Object{ours("reconciler-0", "reconciler", 0), ours("reconciler-1", "reconciler", 2)}
	for i := range 12 {
		pods = append(pods, ours(fmt.Sprintf("agent-%02d", i), "agent", 0))
	}
	core := fake.NewClientset(pods...)
	core.AddProxyReactor("pods", func(a clienttesting.Action) (bool, rest.ResponseWrapper, error) {
		if a.(clienttesting.ProxyGetAction).GetName() == "reconciler-1" {
			return true, answer{err: errors.New("refused")}, nil
		}
		return true, answer{text: "a_metric 1\n"}, nil
	})
	core.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		return a.GetNamespace() == "agents", nil, errors.New("forbidden")
	})
	files, _ := written(t, func(d *sysdump.Dump) {
		objects(d, Observe(UsualPool))
		d.Add("status.txt", []byte("a status"), nil)
		d.Pods(t.Context(), core, "system", "agents", "system")
	})
	got := strings.Join(slices.Sorted(maps.Keys(files)), "\n") + "\n\n" + files["sysdump/manifest.json"] + "\n"
	const golden = "testdata/bundle.txt"
	if *update {
		check(t, os.WriteFile(golden, []byte(got), 0o600))
	}
	if want, err := os.ReadFile(golden); err != nil || got != string(want) {
		t.Errorf("%s differs (%v); see what with -update and 'git diff'. It is\n%s", golden, err, got)
	}
}

// objects adds the objects of an observation as they are stored.
func objects(d *sysdump.Dump, o *Observed) {
	d.Objects(o.Observation, func(resource string) snapshot.List {
		return snapshot.List{ResourceVersion: "7", Objects: o.Stored(resource)}
	}, snapshot.Encoder{})
}

// A file has all objects of a kind, and is read again.
func TestObjects_Size(t *testing.T) {
	const pods = 20_000
	o := Observe(UsualPool)
	for i := range pods {
		Pod(fmt.Sprintf("web-%d", i), UID(fmt.Sprintf("%08x-7c1e-4c4a-9d3b-%012x", i*2654435761, i*40503*i)),
			OnNode(fmt.Sprint("worker-", i%300)), Carrying("10.0.0.5"))(o)
	}
	files, whole := written(t, func(d *sysdump.Dump) { objects(d, o) })
	if list := files["sysdump/pods.json"]; len(whole) > 10<<20 || len(list) > pods<<10 ||
		strings.Count(list, "\n") != pods+2 {
		t.Errorf("%d bytes, of pods %d", len(whole), len(list))
	}
	s, err := snapshot.OpenStream("bundle", bytes.NewReader(whole), time.Time{}, "")
	check(t, err)
	again, err := s.List(t.Context())
	if err != nil || len(again.Pods) != pods || len(again.Pools) != 1 || !again.Now.Equal(Now) {
		t.Errorf("the bundle has %d pods and %d pools at %s: %v", len(again.Pods), len(again.Pools), again.Now, err)
	}
}

// A list that was not copied as a whole is missing, and the bundle is refused with the cause.
func TestObjects_NotCopied(t *testing.T) {
	_, whole := written(t, func(d *sysdump.Dump) {
		d.Objects(Observe(UsualPool, UsualPod()).Observation, func(string) snapshot.List { return snapshot.List{} },
			snapshot.Encoder{})
	})
	_, err := snapshot.OpenStream("bundle", bytes.NewReader(whole), time.Time{}, "")
	if err == nil || !strings.HasSuffix(err.Error(), "manifest.json names no objects, since they could not be collected: "+
		"objects: Node: 1 objects were read, and 0 copied") {
		t.Error(err)
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

// check ends the test with an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A long log keeps its newest lines, and long metrics say that they are cut.
func TestPods_LongTexts(t *testing.T) {
	var long strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&long, "%06d %s\n", i, strings.Repeat("x", 150))
	}
	pod := ours("reconciler-0", "reconciler", 0)
	core := fake.NewClientset(pod)
	core.AddProxyReactor("pods", func(clienttesting.Action) (bool, rest.ResponseWrapper, error) {
		return true, answer{text: long.String()}, nil
	})
	files, _ := written(t, func(d *sysdump.Dump) { d.Pods(t.Context(), core, "system") })
	metrics, manifest := files["sysdump/metrics/reconciler-0.txt"], files["sysdump/manifest.json"]
	if len(metrics) != 4<<20 || !strings.Contains(manifest, "metrics/reconciler-0.txt: cut after 4 MiB") {
		t.Errorf("%d bytes of metrics: %s", len(metrics), manifest)
	}
	for _, text := range []string{long.String(), "a\nb", ""} {
		kept, err := sysdump.Newest(strings.NewReader(text))
		check(t, err)
		if !strings.HasSuffix(text, string(kept)) || len(kept) > 4<<20 || len(kept) < min(len(text), 4<<20-200) ||
			len(kept) < len(text) && kept[0] != '0' {
			t.Errorf("of %d bytes it keeps %d: %.20q", len(text), len(kept), kept)
		}
	}
}
