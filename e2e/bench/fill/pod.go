package fill

import (
	"bytes"
	_ "embed" // of the fields
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// The fields that are the same for all pods, and the managedFields of a Deployment's running pod, as the controller
// manager, Multus and kubelet leave them.
var (
	//go:embed pod.yaml
	podFields string
	//go:embed network-status.json
	networkStatus string
	//go:embed fields-controller.json
	fieldsOfController string
	//go:embed fields-kubelet.json
	fieldsOfKubelet string
)

const fieldsOfMultus = `{"f:metadata":{"f:annotations":{"f:k8s.v1.cni.cncf.io/network-status":{}}}}`

// commonPod is a pod with the fields of pod.yaml.
var commonPod = sync.OnceValue(func() *corev1.Pod {
	p := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(podFields), p); err != nil {
		panic(err) // it is embedded
	}
	return p
})

// Pod is the entry's pod as the API server stores it.
func (c *Content) Pod(i int) *corev1.Pod {
	e, made, owner, p := c.Entry(i), c.age(i), uid("replicaset", i/20), commonPod().DeepCopy()
	p.Name, p.Namespace, p.UID, p.GenerateName, p.CreationTimestamp = e.Name, e.Namespace, e.UID, replicaSet(i)+"-", made
	for key, value := range map[string]string{"name": app(i), "instance": app(i) + "-" + e.Namespace,
		"part-of": e.Namespace} {
		p.Labels["app.kubernetes.io/"+key] = value
	}
	p.Labels["pod-template-hash"] = hashed("template", i/20)[:10]
	p.Annotations["k8s.v1.cni.cncf.io/networks"] = "default/" + NetworkName(e.Pool)
	p.Annotations["checksum/config"] = sandboxID(-i - 1)
	p.OwnerReferences[0].Name, p.OwnerReferences[0].UID = replicaSet(i), owner
	p.ManagedFields = []metav1.ManagedFieldsEntry{written("kube-controller-manager", "", made,
		fmt.Sprintf(fieldsOfController, owner))}
	p.Spec.NodeName, p.Spec.ServiceAccountName, p.Spec.DeprecatedServiceAccount = NodeName(e.Node), app(i), app(i)
	main := &p.Spec.Containers[0]
	main.Image, main.Env[0].Value = "registry.example.com/"+app(i)+":2026.11.3", "/etc/config/"+app(i)+".yaml"
	p.Spec.Volumes[0].ConfigMap.Name = app(i)
	if c.NoGrace {
		p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(0))
	}
	if e.Pending {
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable,
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
				LastTransitionTime: made, ObservedGeneration: 1}}}
	} else {
		c.run(p, e, made)
	}
	return p
}

// run makes the pod Running, as Multus and kubelet write it.
func (c *Content) run(p *corev1.Pod, e *Entry, since metav1.Time) {
	podIP := fmt.Sprintf("100.%d.%d.%d", 64+e.Node>>8, e.Node&255, 2+e.Key%250)
	hostIP := fmt.Sprintf("10.240.%d.%d", e.Node>>8, e.Node&255)
	p.Annotations["k8s.v1.cni.cncf.io/network-status"] = fmt.Sprintf(networkStatus, podIP, e.Node>>8&255, e.Node&255,
		e.Key&255, NetworkName(e.Pool), e.IP, e.Pool, e.Key>>8, e.Key&255)
	p.ManagedFields = append(p.ManagedFields,
		written("multus-daemon", "status", since, fieldsOfMultus),
		written("kubelet", "status", since, fmt.Sprintf(fieldsOfKubelet, podIP)))
	s := &p.Status
	s.StartTime, s.HostIP, s.HostIPs = &since, hostIP, []corev1.HostIP{{IP: hostIP}}
	s.PodIP, s.PodIPs = podIP, []corev1.PodIP{{IP: podIP}}
	for i := range s.Conditions {
		s.Conditions[i].LastTransitionTime = since
	}
	main := &s.ContainerStatuses[0]
	main.Image, main.ImageID = p.Spec.Containers[0].Image, "registry.example.com/team@sha256:"+sandboxID(-e.Node-1)
	main.ContainerID = "containerd://" + sandboxID(-e.Pool<<20-e.Key)
	main.State.Running.StartedAt = since
}

// put stores an object of a built-in kind.
func put(key string, o runtime.Object) Put {
	var stored bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(o, &stored); err != nil {
		panic(err) // it is one of the scheme's
	}
	return Put{key, stored.Bytes()}
}

// Node is a Ready node.
func (c *Content) Node(i int) *corev1.Node {
	name, made := NodeName(i), metav1.NewTime(c.Made.Add(-30*24*time.Hour))
	n := &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: uid("node", i), CreationTimestamp: made,
			Labels: map[string]string{
				corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
				corev1.LabelTopologyZone: "eu-central-1" + string(rune('a'+i%3)), corev1.LabelInstanceTypeStable: "m7i.4xlarge",
			},
			ManagedFields: []metav1.ManagedFieldsEntry{written("kubelet", "status", made,
				`{"f:status":{"f:conditions":{},"f:images":{},"f:nodeInfo":{}}}`)},
		},
		Spec: corev1.NodeSpec{PodCIDR: fmt.Sprintf("100.%d.%d.0/24", 64+i>>8, i&255), ProviderID: "aws:///eu-central-1a/i-" +
			hashed("instance", i)[:17]},
		Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.240.%d.%d", i>>8, i&255)},
				{Type: corev1.NodeHostName, Address: name}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
				LastHeartbeatTime: metav1.NewTime(c.Made), LastTransitionTime: made}},
			NodeInfo: corev1.NodeSystemInfo{BootID: BootID(i), SystemUUID: string(uid("system", i)), MachineID: hashed("machine",
				i)[:32],
				KernelVersion: "6.12.48", OSImage: "Debian GNU/Linux 13 (trixie)", ContainerRuntimeVersion: "containerd://2.4.2",
				KubeletVersion: "v1.36.3", OperatingSystem: "linux", Architecture: "amd64"},
		},
	}
	for k := range 40 { // kubelet names 50 at most
		image := "registry.example.com/" + app(k)
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{
			Names: []string{image + "@sha256:" + sandboxID(-k-1), fmt.Sprint(image, ":2026.", k)}, SizeBytes: int64(40_000_000 +
				k),
		})
	}
	return n
}

// BootID is the boot id of a node, in its Node and in its report.
func BootID(node int) string { return string(uid("boot", node)) }
