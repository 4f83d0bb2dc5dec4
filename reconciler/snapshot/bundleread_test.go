package snapshot_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

// fullNode sets what the other edits of a Node leave out.
func fullNode(n *corev1.Node) {
	n.UID, n.ResourceVersion, n.CreationTimestamp = "u", "6", metav1.NewTime(Now.Add(-time.Hour))
	n.Status.NodeInfo.KubeletVersion = "v1.36.0"
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}
}

// restoredByBackup makes it a pod that a backup tool created with the network-status of the pod before it.
func restoredByBackup(p *corev1.Pod) {
	Carrying("10.0.0.7")(p)
	p.Status = corev1.PodStatus{Phase: corev1.PodPending}
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "velero", Time: &p.CreationTimestamp,
		FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:k8s.v1.cni.cncf.io/network-status":{}}},` +
			`"f:spec":{"f:containers":{"k:{\"name\":\"hunter2\"}":{"f:env":{}}}}}`)}}
}

// Also files may have managedFields.
func TestRead_PodRestoredByBackup(t *testing.T) {
	o := Observe(Pod("k", restoredByBackup))
	text := strings.Replace(string(o.Stored("pods")[0]), "{", `{"apiVersion":"v1","kind":"Pod",`, 1)
	if got := observeFile(t, text).Pods[name("default", "k")]; got == nil || len(got.Interfaces) > 0 {
		t.Errorf("%+v", got)
	}
}

func TestOpen_RefusedBundle(t *testing.T) {
	const pods, manifest = "sysdump/pods.json", "sysdump/manifest.json"
	drop := func(name string) func(map[string]string) {
		return func(files map[string]string) { delete(files, name) }
	}
	replace := func(name, old, with string) func(map[string]string) {
		return func(files map[string]string) {
			if !strings.Contains(files[name], old) {
				t.Fatalf("%s has no %s: %s", name, old, files[name])
			}
			files[name] = strings.Replace(files[name], old, with, 1)
		}
	}
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"a","name":"b","uid":"c"}}`
	for _, c := range []struct {
		name string
		edit func(files map[string]string)
		want string
	}{
		{"a list is missing", drop(pods), "sysdump/pods.json has 0 objects of kind Pod, and bundle: " +
			"sysdump/manifest.json counts 1: the archive was cut or edited"},
		{"a list is cut", replace(pods, "\n]}", ""), "bundle: sysdump/pods.json is not JSON"},
		{"an object is missing", func(files map[string]string) {
			files[pods] = `{"apiVersion":"v1","kind":"List","items":[]}`
		}, "sysdump/pods.json has 0 objects of kind Pod"},
		{"another object", replace(pods, "[\n", "[\n"+pod+","), "sysdump/pods.json has 2 objects of kind Pod"},
		{"an object of another kind", replace(pods, "[\n", "[\n"+strings.Replace(pod, "Pod", "Node", 1)+","),
			"sysdump/pods.json has objects of kind Node, which bundle: sysdump/manifest.json does not count"},
		{"another file", func(files map[string]string) { files["more.json"] = pod },
			"more.json has objects of kind Pod, which bundle: sysdump/manifest.json does not count"},
		{"the same file twice", func(files map[string]string) { files["copy/pods.json"] = files[pods] },
			"copy/pods.json has objects of kind Pod"},
		{"two bundles", func(files map[string]string) { files["other/manifest.json"] = files[manifest] },
			"another manifest is in bundle: other/manifest.json"},
		{"an object twice in place of another", func(files map[string]string) {
			replace(pods, "[\n", "[\n"+pod+","+pod+",")(files)
			replace(manifest, `"kind": "Pod",`+"\n   "+`"objects": 1`, `"kind": "Pod", "objects": 3`)(files)
		}, "sysdump/pods.json has 2 objects of kind Pod, and bundle: sysdump/manifest.json counts 3"},
		{"a kind that is known and unknown", replace(manifest, `"unknown": []`,
			`"unknown": [{"kind": "Node", "why": "forbidden"}]`), "sysdump/manifest.json names objects of kind Node twice"},
		{"a kind in two files", func(files map[string]string) {
			files["sysdump/more.json"] = strings.Replace(pod, "Pod", "Node", 1)
			replace(manifest, `"lists": [`, `"lists": [{"file": "more.json", "kind": "Node", "objects": 1},`)(files)
		}, "sysdump/manifest.json names objects of kind Node twice"},
		{"nothing of a pause", replace(manifest, `"paused"`, `"pause"`), "sysdump/manifest.json has no paused"},
		{"a pause that is null", replace(manifest, `"paused": false`, `"paused": null`), "manifest.json has no paused"},
		{"nothing of what was unreadable", replace(manifest, `"unreadable"`, `"x"`), "manifest.json has no unreadable"},
		{"no warnings", replace(manifest, `"warnings"`, `"x"`), "sysdump/manifest.json has no warnings"},
		{"nothing of what is unknown", replace(manifest, `"unknown"`, `"x"`), "sysdump/manifest.json has no unknown"},
		{"a list is counted twice", replace(manifest, `"file": "nodes.json",`+"\n   "+`"kind": "Node"`,
			`"file": "pods.json", "kind": "Pod"`), "the archive was cut or edited"},
		{"a format of another version", replace(manifest, "output.ip-reconcile.dev/v1", "output.ip-reconcile.dev/v2"),
			"its apiVersion is output.ip-reconcile.dev/v2, and not output.ip-reconcile.dev/v1"},
		{"no time", replace(manifest, `"observedAt"`, `"observed"`), "has no observedAt"},
		{"pods that could not be read", func(files map[string]string) {
			drop(pods)(files)
			replace(manifest, `"kind": "Pod",`+"\n   "+`"objects": 1`, `"kind": "Other", "objects": 0`)(files)
			replace(manifest, `"unknown": []`, `"unknown": [{"kind": "Pod", "why": "forbidden"}]`)(files)
		}, "says that no Pod could be read"},
		{"a kind without a count", replace(manifest, `"kind": "IPAMClaim"`, `"kind": "Other"`),
			"says nothing of objects of kind IPAMClaim"},
		{"no objects", func(files map[string]string) {
			clear(files)
			files[manifest] = `{"apiVersion":"output.ip-reconcile.dev/v1","kind":"Sysdump","lists":[],
				"missing":["objects: forbidden"]}`
		}, "names no objects, since they could not be collected: objects: forbidden"},
		{"a manifest that cannot be decoded", func(files map[string]string) {
			files[manifest] = `{"apiVersion":"output.ip-reconcile.dev/v1","kind":"Sysdump","lists":5}`
		}, "sysdump/manifest.json: lists is a number"},
		{"the format before the first release", func(files map[string]string) {
			clear(files)
			files["sysdump/objects-001.json"] = `{"kind":"SysdumpRecord","apiVersion":"output.ip-reconcile.dev/v1","pod":{}}`
		}, "sysdump/objects-001.json: a development version of sysdump wrote it"},
	} {
		files := bundleOf(t, Observe(UsualPool, UsualPod(), NoNodes), snapshot.Encoder{})
		c.edit(files)
		_, err := snapshot.OpenStream("bundle", strings.NewReader(tarOf(t, files)), time.Time{}, home)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A bundle that was unpacked and packed again has its files elsewhere.
func TestOpen_RepackedBundle(t *testing.T) {
	for _, folder := range []string{"", "a bug/ip: 1/"} {
		files := map[string]string{}
		for name, text := range bundleOf(t, Observe(UsualPool, UsualPod(), NoNodes), snapshot.Encoder{}) {
			files[folder+strings.TrimPrefix(name, "sysdump/")] = text
		}
		if _, err := snapshot.OpenStream("x.tgz", strings.NewReader(tarOf(t, files)), time.Time{}, home); err != nil {
			t.Errorf("in %q: %v", folder, err)
		}
	}
}

// An archive that is cut between two files is refused, whatever it lacks. Here it is the manifest.
func TestOpen_BundleWithoutItsEnd(t *testing.T) {
	files := bundleOf(t, Observe(UsualPool, UsualPod(), NoNodes), snapshot.Encoder{})
	delete(files, "sysdump/manifest.json")
	archive := strings.TrimRight(tarOf(t, files), "\x00")
	archive += strings.Repeat("\x00", 512-len(archive)%512)
	_, err := snapshot.OpenStream("bundle", strings.NewReader(archive), time.Time{}, home)
	if err == nil || !strings.Contains(err.Error(), "bundle is incomplete") {
		t.Error(err)
	}
}

// Files of a bundle without its manifest are judged as exported ones, and a warning says so. kubectl gives a List no
// resourceVersion, and the API server gives one to a typed list.
func TestOpen_BundleWithoutManifest(t *testing.T) {
	for _, c := range []struct {
		name   string
		edit   func(files map[string]string)
		isDump bool
	}{
		{"as sysdump wrote it", func(map[string]string) {}, false},
		{"without its manifest", func(files map[string]string) { delete(files, "sysdump/manifest.json") }, true},
		{"as kubectl writes it", func(files map[string]string) {
			delete(files, "sysdump/manifest.json")
			for name, text := range files {
				files[name] = strings.Replace(text, `"metadata":{"resourceVersion":"1"}`, `"metadata":{"resourceVersion":""}`, 1)
			}
		}, false},
		{"an answer of the API server", func(files map[string]string) {
			pools := files["sysdump/ippools.json"]
			clear(files)
			files["ippools.json"] = strings.Replace(pools, `"kind":"List"`, `"kind":"IPPoolList"`, 1)
		}, false},
	} {
		files := bundleOf(t, Observe(UsualPool, UsualPod(), NoNodes), snapshot.Encoder{})
		c.edit(files)
		s, err := snapshot.OpenStream("bundle", strings.NewReader(tarOf(t, files)), time.Time{}, home)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		o, err := s.List(t.Context())
		check(t, err)
		warnings := strings.Join(o.Warnings, "\n")
		if strings.Contains(warnings, "sysdump wrote bundle: sysdump/") != c.isDump || (o.Cut != "") != c.isDump {
			t.Errorf("%s: %s (%q)", c.name, warnings, o.Cut)
		}
	}
}
