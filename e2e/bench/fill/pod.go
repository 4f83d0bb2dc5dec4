package fill

import (
	"bytes"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
)

// The managedFields of a Deployment's running pod, as the controller manager, Multus and kubelet leave them.
const (
	fieldsOfController = `{"f:metadata":{"f:annotations":{".":{},"f:checksum/config":{},` +
		`"f:k8s.v1.cni.cncf.io/networks":{},"f:prometheus.io/port":{},"f:prometheus.io/scrape":{}},"f:generateName":{},` +
		`"f:labels":{".":{},"f:app.kubernetes.io/component":{},"f:app.kubernetes.io/instance":{},` +
		`"f:app.kubernetes.io/name":{},"f:app.kubernetes.io/part-of":{},"f:app.kubernetes.io/version":{},` +
		`"f:pod-template-hash":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"%s\"}":{}}},"f:spec":{"f:containers":{"k:{` +
		`\"name\":\"main\"}":{".":{},"f:env":{".":{},"k:{\"name\":\"CONFIG\"}":{".":{},"f:name":{},"f:value":{}},"k:{` +
		`\"name\":\"NODE_NAME\"}":{".":{},"f:name":{},"f:valueFrom":{".":{},"f:fieldRef":{}}},"k:{\"name\":\"POD_IP\"}":{` +
		`".":{},"f:name":{},"f:valueFrom":{".":{},"f:fieldRef":{}}}},"f:image":{},"f:imagePullPolicy":{},` +
		`"f:livenessProbe":{".":{},"f:failureThreshold":{},"f:httpGet":{".":{},"f:path":{},"f:port":{},"f:scheme":{}},` +
		`"f:periodSeconds":{},"f:successThreshold":{},"f:timeoutSeconds":{}},"f:name":{},"f:ports":{".":{},"k:{` +
		`\"containerPort\":8080,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:name":{},"f:protocol":{}}},` +
		`"f:readinessProbe":{".":{},"f:failureThreshold":{},"f:httpGet":{".":{},"f:path":{},"f:port":{},"f:scheme":{}},` +
		`"f:periodSeconds":{},"f:successThreshold":{},"f:timeoutSeconds":{}},"f:resources":{".":{},"f:limits":{".":{},` +
		`"f:memory":{}},"f:requests":{".":{},"f:cpu":{},"f:memory":{}}},"f:terminationMessagePath":{},` +
		`"f:terminationMessagePolicy":{},"f:volumeMounts":{".":{},"k:{\"mountPath\":\"/etc/config\"}":{".":{},` +
		`"f:mountPath":{},"f:name":{},"f:readOnly":{}}}}},"f:dnsPolicy":{},"f:enableServiceLinks":{},"f:restartPolicy":{},` +
		`"f:schedulerName":{},"f:securityContext":{},"f:serviceAccount":{},"f:serviceAccountName":{},` +
		`"f:terminationGracePeriodSeconds":{},"f:volumes":{".":{},"k:{\"name\":\"config\"}":{".":{},"f:configMap":{".":{},` +
		`"f:defaultMode":{},"f:name":{}},"f:name":{}}}}}`
	fieldsOfMultus  = `{"f:metadata":{"f:annotations":{"f:k8s.v1.cni.cncf.io/network-status":{}}}}`
	fieldsOfKubelet = `{"f:status":{"f:conditions":{"k:{\"type\":\"ContainersReady\"}":{".":{},"f:lastProbeTime":{},` +
		`"f:lastTransitionTime":{},"f:observedGeneration":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Initialized\"}":{` +
		`".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:observedGeneration":{},"f:status":{},"f:type":{}},"k:{` +
		`\"type\":\"PodReadyToStartContainers\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},` +
		`"f:observedGeneration":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Ready\"}":{".":{},"f:lastProbeTime":{},` +
		`"f:lastTransitionTime":{},"f:observedGeneration":{},"f:status":{},"f:type":{}}},"f:containerStatuses":{},` +
		`"f:hostIP":{},"f:hostIPs":{},"f:observedGeneration":{},"f:phase":{},"f:podIP":{},"f:podIPs":{".":{},"k:{` +
		`\"ip\":\"%s\"}":{".":{},"f:ip":{}}},"f:startTime":{}}}`
)

// Pod is the entry's pod as the API server stores it.
func (c *Content) Pod(i int) *corev1.Pod {
	e, made, owner := c.Entry(i), c.age(i), uid("replicaset", i/20)
	node := NodeName(e.Node)
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: e.Name, Namespace: e.Namespace, UID: e.UID, GenerateName: replicaSet(i) + "-", Generation: 1,
			CreationTimestamp: made,
			Labels: map[string]string{
				"app.kubernetes.io/name": app(i), "app.kubernetes.io/instance": app(i) + "-" + e.Namespace,
				"app.kubernetes.io/component": "worker",
				"app.kubernetes.io/part-of":   e.Namespace, "app.kubernetes.io/version": "2026.11.3",
				"pod-template-hash": hashed("template", i/20)[:10],
			},
			Annotations: map[string]string{
				"k8s.v1.cni.cncf.io/networks": "default/" + NetworkName(e.Pool), "checksum/config": sandboxID(-i - 1),
				"prometheus.io/scrape": "true", "prometheus.io/port": "8080",
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: replicaSet(i), UID: owner, Controller: ptr.To(true),
				BlockOwnerDeletion: ptr.To(true),
			}},
			ManagedFields: []metav1.ManagedFieldsEntry{written("kube-controller-manager", "", made,
				fmt.Sprintf(fieldsOfController, owner))},
		},
		Spec: podSpec(i, node),
		Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable, Conditions: conditions(made,
			corev1.PodScheduled)},
	}
	if c.NoGrace {
		p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(0))
	}
	if !e.Pending {
		c.run(p, e, made)
	}
	return p
}

// run makes the pod Running, as Multus and kubelet write it.
func (c *Content) run(p *corev1.Pod, e *Entry, since metav1.Time) {
	podIP := fmt.Sprintf("100.%d.%d.%d", 64+e.Node>>8, e.Node&255, 2+e.Key%250)
	hostIP := fmt.Sprintf("10.240.%d.%d", e.Node>>8, e.Node&255)
	p.Annotations["k8s.v1.cni.cncf.io/network-status"] = fmt.Sprintf(`[{
    "name": "cbr0",
    "interface": "eth0",
    "ips": [
        "%s"
    ],
    "mac": "0a:58:64:%02x:%02x:%02x",
    "default": true,
    "dns": {},
    "gateway": [
        "100.64.0.1"
    ]
},{
    "name": "default/%s",
    "interface": "net1",
    "ips": [
        "%s"
    ],
    "mac": "02:00:0a:%02x:%02x:%02x",
    "mtu": 1500,
    "dns": {}
}]`, podIP, e.Node>>8&255, e.Node&255, e.Key&255, NetworkName(e.Pool), e.IP, e.Pool, e.Key>>8, e.Key&255)
	p.ManagedFields = append(p.ManagedFields,
		written("multus-daemon", "status", since, fieldsOfMultus),
		written("kubelet", "status", since, fmt.Sprintf(fieldsOfKubelet, podIP)))
	p.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable, ObservedGeneration: 1, StartTime: &since,
		HostIP: hostIP, HostIPs: []corev1.HostIP{{IP: hostIP}}, PodIP: podIP, PodIPs: []corev1.PodIP{{IP: podIP}},
		Conditions: conditions(since, corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady,
			corev1.ContainersReady, corev1.PodScheduled),
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", Ready: true, Started: ptr.To(true), Image: p.Spec.Containers[0].Image,
			ImageID:     "registry.example.com/team@sha256:" + sandboxID(-e.Node-1),
			ContainerID: "containerd://" + sandboxID(-e.Pool<<20-e.Key),
			State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: since}},
			VolumeMounts: []corev1.VolumeMountStatus{
				{Name: "config", MountPath: "/etc/config", ReadOnly: true,
					RecursiveReadOnly: ptr.To(corev1.RecursiveReadOnlyDisabled)},
				{Name: tokenVolume, MountPath: tokenPath, ReadOnly: true,
					RecursiveReadOnly: ptr.To(corev1.RecursiveReadOnlyDisabled)},
			},
		}},
	}
}

func conditions(since metav1.Time, kinds ...corev1.PodConditionType) []corev1.PodCondition {
	var all []corev1.PodCondition
	for _, kind := range kinds {
		all = append(all, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: since,
			ObservedGeneration: 1})
	}
	return all
}

const (
	tokenVolume = "kube-api-access-x7k2p"
	tokenPath   = "/var/run/secrets/kubernetes.io/serviceaccount"
)

func podSpec(i int, node string) corev1.PodSpec {
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("http"),
				Scheme: corev1.URISchemeHTTP}},
			PeriodSeconds: 10, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3,
		}
	}
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name,
			ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
	}
	tolerate := func(key string) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: ptr.To(int64(300))}
	}
	return corev1.PodSpec{
		NodeName: node, ServiceAccountName: app(i), DeprecatedServiceAccount: app(i),
		RestartPolicy: corev1.RestartPolicyAlways,
		DNSPolicy:     corev1.DNSClusterFirst, SchedulerName: "default-scheduler",
		TerminationGracePeriodSeconds: ptr.To(int64(30)),
		EnableServiceLinks:            ptr.To(true), Priority: ptr.To(int32(0)),
		PreemptionPolicy: ptr.To(corev1.PreemptLowerPriority),
		SecurityContext:  &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true)},
		Tolerations:      []corev1.Toleration{tolerate(corev1.TaintNodeNotReady), tolerate(corev1.TaintNodeUnreachable)},
		Containers: []corev1.Container{{
			Name: "main", Image: "registry.example.com/" + app(i) + ":2026.11.3", ImagePullPolicy: corev1.PullIfNotPresent,
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
			Env: []corev1.EnvVar{{Name: "CONFIG", Value: "/etc/config/" + app(i) + ".yaml"},
				field("NODE_NAME", "spec.nodeName"), field("POD_IP", "status.podIP")},
			Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"),
					corev1.ResourceMemory: resource.MustParse("256Mi")},
			},
			LivenessProbe: probe("/healthz"), ReadinessProbe: probe("/readyz"),
			TerminationMessagePath:   corev1.TerminationMessagePathDefault,
			TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/config", ReadOnly: true},
				{Name: tokenVolume, MountPath: tokenPath, ReadOnly: true}},
		}},
		Volumes: []corev1.Volume{
			{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: app(i)}, DefaultMode: ptr.To(int32(0o644))}}},
			{Name: tokenVolume,
				VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: ptr.To(int32(0o644)),
					Sources: []corev1.VolumeProjection{
						{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: ptr.To(int64(3607)),
							Path: "token"}},
						{ConfigMap: &corev1.ConfigMapProjection{
							LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
							Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
						{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
							{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}}}}},
					}}}},
		},
	}
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
