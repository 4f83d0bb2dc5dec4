//go:build slow

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const (
	withoutControlLoop = "../deploy/whereabouts/without-control-loop.yaml"
	ourImage           = "example.com/ip-reconcile:v1"
)

// upstreamAt is the folder of whereabouts' sources at a version.
func upstreamAt(t testing.TB, version string) string {
	t.Helper()
	return moduleAt(t, "github.com/k8snetworkplumbingwg/whereabouts", version)
}

// patched changes an object with kubectl and returns its output.
func (s *stage) patched(t testing.TB, args ...string) (string, error) {
	t.Helper()
	out, errs, err := s.Kubectl(t.Context(), args...)
	return out + errs, err
}

// onANode runs the command of whereabouts' container with the scripts of an image, in bash, below a folder. The folder
// has a control loop that leaves a mark, and a ServiceAccount whose token is "one".
func onANode(t *testing.T, scripts string, c corev1.Container) (folder string, process *exec.Cmd) {
	t.Helper()
	folder = t.TempDir()
	account := filepath.Join(folder, "serviceaccount")
	below := strings.NewReplacer("/install-cni.sh", folder+"/install-cni.sh", "/token-watcher.sh", folder+
		"/token-watcher.sh",
		"/lib.sh", folder+"/lib.sh", "/ip-control-loop", folder+"/ip-control-loop", "cp -f /whereabouts", "cp -f "+folder+
			"/whereabouts",
		"/var/run/secrets/kubernetes.io/serviceaccount", account)
	for _, sub := range []string{"bin", "net.d", "serviceaccount"} {
		check(t, os.Mkdir(filepath.Join(folder, sub), 0o755))
	}
	for name, content := range map[string]string{
		"whereabouts": "the plugin", "serviceaccount/token": "one", "serviceaccount/ca.crt": "ca",
		"ip-control-loop": "#!/bin/bash\ntouch " + folder + "/reconciled\nsleep 1000\n",
	} {
		check(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o755))
	}
	for _, script := range try(filepath.Glob(scripts + "/*.sh")).must(t) {
		text := below.Replace(string(try(os.ReadFile(script)).must(t)))
		text = strings.Replace(text, "#!/bin/sh", "#!/bin/bash", 1)
		check(t, os.WriteFile(filepath.Join(folder, filepath.Base(script)), []byte(text), 0o755))
	}
	equal(t, "the shell", c.Command, []string{"/bin/sh"})
	process = exec.Command("bash", c.Args[0], below.Replace(c.Args[1]))
	process.Env = []string{"PATH=" + os.Getenv("PATH"), "KUBERNETES_SERVICE_HOST=10.96.0.1", "KUBERNETES_SERVICE_PORT=443",
		"WHEREABOUTS_NAMESPACE=kube-system", "NODENAME=worker-1", "CNI_BIN_DIR=" + folder + "/bin", "CNI_CONF_DIR=" + folder +
			"/net.d"}
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	output := &buffer{}
	process.Stdout, process.Stderr = output, output
	check(t, process.Start())
	t.Cleanup(func() {
		syscall.Kill(-process.Process.Pid, syscall.SIGKILL)
		process.Wait()
		if t.Failed() {
			t.Logf("the container said:\n%s", output)
		}
	})
	return folder, process
}

func says(file, part string) bool {
	text, err := os.ReadFile(file)
	return err == nil && strings.Contains(string(text), part)
}

// sleeps reports whether a process waits for a `sleep`.
func sleeps(pid int) bool {
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	for _, child := range strings.Fields(string(children)) {
		if says("/proc/"+child+"/comm", "sleep") {
			return true
		}
	}
	return false
}

func TestWhereabouts_DaemonSetWithoutControlLoop(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for name, c := range map[string]struct {
		version string // with manifests
		file    string // else a manifest of testdata
		watcher bool
	}{
		"v0.9.4":                           {version: "v0.9.4", watcher: true},
		"v0.8.0":                           {version: "v0.8.0"},
		"v0.5.4, with the scripts of v0.8": {file: "whereabouts-v0.5.4.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			var source, manifest string
			if c.version != "" {
				source = upstreamAt(t, c.version)
				manifest = source + "/doc/crds/daemonset-install.yaml"
			} else {
				source, manifest = upstreamAt(t, "v0.8.0"), "testdata/"+c.file
			}
			sets := s.Client().AppsV1().DaemonSets(metav1.NamespaceSystem)
			shipped := try(sets.Create(t.Context(), objectIn[appsv1.DaemonSet](t, manifest, "DaemonSet"),
				metav1.CreateOptions{})).must(t)
			t.Cleanup(func() { check(t, sets.Delete(context.Background(), shipped.Name, metav1.DeleteOptions{})) })
			before := shipped.Spec.Template.Spec.Containers[0]
			contains(t, "upstream's command", fmt.Sprint(before.Command, before.Args), "/ip-control-loop")

			said, err := s.patched(t, "-n", shipped.Namespace, "patch", "daemonset", shipped.Name, "--type", "json",
				"--patch-file", withoutControlLoop)
			if err != nil {
				t.Fatal(said)
			}
			set := try(sets.Get(t.Context(), shipped.Name, metav1.GetOptions{})).must(t)
			after := set.Spec.Template.Spec.Containers[0]
			if strings.Contains(fmt.Sprint(after.Command, after.Args), "control-loop") {
				t.Errorf("it still runs the control loop: %v", after.Args)
			}
			args := after.Args
			after.Args = before.Args
			equal(t, "but for the arguments", after, before)
			after.Args = args

			folder, process := onANode(t, source+"/script", after)
			kubeconfig := folder + "/net.d/whereabouts.d/whereabouts.kubeconfig"
			eventually(t, "the plugin and its kubeconfig", func() bool {
				return says(folder+"/bin/whereabouts", "the plugin") && says(kubeconfig, `token: "one"`)
			})
			if c.watcher {
				check(t, os.WriteFile(folder+"/serviceaccount/token", []byte("two"), 0o600))
				eventually(t, "the new token in the kubeconfig", func() bool { return says(kubeconfig, `token: "two"`) })
			}
			eventually(t, "the container to sleep on", func() bool { return sleeps(process.Process.Pid) })
			if _, err := os.Stat(folder + "/reconciled"); err == nil {
				t.Error("the control loop ran")
			}

			// As shipped it runs in the same environment.
			folder, _ = onANode(t, source+"/script", before)
			eventually(t, "upstream's control loop",
				func() bool { _, err := os.Stat(folder + "/reconciled"); return err == nil })
		})
	}

	t.Run("and one with another command is not changed", func(t *testing.T) {
		sets := s.Client().AppsV1().DaemonSets(metav1.NamespaceSystem)
		set := objectIn[appsv1.DaemonSet](t, "testdata/whereabouts-v0.5.4.yaml", "DaemonSet")
		set.Spec.Template.Spec.Containers[0].Command = []string{"/usr/bin/whereabouts-of-our-own"}
		set = try(sets.Create(t.Context(), set, metav1.CreateOptions{})).must(t)
		said, err := s.patched(t, "-n", set.Namespace, "patch", "daemonset", set.Name, "--type", "json", "--patch-file",
			withoutControlLoop)
		if err == nil {
			t.Errorf("it was patched: %s", said)
		}
		equal(t, "what is stored", try(sets.Get(t.Context(), set.Name, metav1.GetOptions{})).must(t).Generation,
			set.Generation)
	})

	t.Run("and so it is with kustomize", func(t *testing.T) {
		folder := overlay(t, "", nil, []string{"whereabouts"}, "")
		manifest := try(os.ReadFile("testdata/whereabouts-v0.5.4.yaml")).must(t)
		check(t, os.WriteFile(filepath.Join(folder, "whereabouts.yaml"), manifest, 0o600))
		text := strings.Replace(string(try(os.ReadFile(folder+"/kustomization.yaml")).must(t)), "resources:\n",
			"resources:\n- whereabouts.yaml\n", 1)
		check(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600))
		set := as[appsv1.DaemonSet](t, byName(t, kustomized(t, folder))["DaemonSet whereabouts"])
		contains(t, "the arguments", fmt.Sprint(set.Spec.Template.Spec.Containers[0].Args), "exec /token-watcher.sh",
			"exec /install-cni.sh")
	})
}

// TestWhereabouts_OpenShiftReconcilerStaysOff lets its operator apply the DaemonSet repeatedly, server-side and by
// force, as it does.
func TestWhereabouts_OpenShiftReconcilerStaysOff(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const namespace, name = "openshift-multus", "whereabouts-reconciler"
	s.namespace(t, namespace)
	sets := s.Dynamic().Resource(schema.GroupVersionResource{Group: "apps", Version: "v1",
		Resource: "daemonsets"}).Namespace(namespace)
	theirs := &unstructured.Unstructured{}
	check(t, yaml.Unmarshal(try(os.ReadFile("testdata/whereabouts-openshift.yaml")).must(t), &theirs.Object))
	operator := func() *appsv1.DaemonSet {
		stored := try(sets.Apply(t.Context(), name, theirs.DeepCopy(),
			metav1.ApplyOptions{FieldManager: "cluster-network-operator", Force: true})).must(t)
		set := &appsv1.DaemonSet{}
		check(t, runtime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, set))
		return set
	}
	was := operator().Spec.Template
	image := was.Spec.Containers[0].Image

	if said, err := s.patched(t, "-n", namespace, "set", "image", "daemonset/"+name, "whereabouts="+ourImage); err != nil {
		t.Fatal(said)
	}
	equal(t, "the image that was changed, after the operator came by", operator().Spec.Template.Spec.Containers[0].Image,
		image)

	types := func(part string) {
		t.Helper()
		s.enter(t, "..", commandsUnder(t, "docs/install/openshift.md", "Stop whereabouts' own reconciler", "oc ", part)...)
	}
	types("--patch-file")
	generation := try(sets.Get(t.Context(), name, metav1.GetOptions{})).must(t).GetGeneration()
	set := operator()
	equal(t, "the generation, after the operator came by", set.Generation, generation)
	terms := set.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	equal(t, "where it may run", terms, []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "ip-reconcile.dev/whereabouts-reconciler",
			Operator: corev1.NodeSelectorOpExists}},
	}})
	types("null")
	equal(t, "the template, after the way back", operator().Spec.Template, was)
}
