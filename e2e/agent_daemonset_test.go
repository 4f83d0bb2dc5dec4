//go:build slow

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestTheAgentsDaemonSetAsksForNoMoreThanItNeeds(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t)
	for name, c := range map[string]struct {
		components []string
		socket     string // its folder
		seLinux    string
		more       string // kinds
	}{
		"as shipped":                   {nil, "/run/containerd", "", ""},
		"with the component cri-o":     {[]string{"cri-o"}, "/run/crio", "", ""},
		"with the component k3s":       {[]string{"k3s"}, "/run/k3s/containerd", "", ""},
		"with the component selinux":   {[]string{"selinux"}, "/run/containerd", "spc_t", ""},
		"with k3s and selinux":         {[]string{"k3s", "selinux"}, "/run/k3s/containerd", "spc_t", ""},
		"with the component openshift": {[]string{"openshift"}, "/run/crio", "spc_t", "Role RoleBinding SecurityContextConstraints "},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := ""
			if c.components != nil {
				namespace = metav1.NamespaceSystem
			}
			objects := s.rendered(t, agentManifests(t, namespace, c.components...))
			kinds := strings.Fields("ClusterRole ClusterRoleBinding DaemonSet FlowSchema PriorityLevelConfiguration ServiceAccount " +
				"ValidatingAdmissionPolicy ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingAdmissionPolicyBinding " + c.more)
			var got []string
			for _, o := range objects {
				got = append(got, o.GetKind())
			}
			slices.Sort(kinds)
			slices.Sort(got)
			equal(t, "kinds", got, kinds)

			ds := daemonSet(t, objects)
			try(s.Client().AppsV1().DaemonSets(ds.Namespace).Create(t.Context(), ds, metav1.CreateOptions{
				DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
			})).must(t)
			pod := ds.Spec.Template.Spec
			equal(t, "containers", len(pod.Containers)+len(pod.InitContainers), 1)
			agent := pod.Containers[0]
			equal(t, "command", agent.Command, []string{"/ip-reconcile-agent"})
			equal(t, "the ServiceAccount", pod.ServiceAccountName, agentName)
			equal(t, "a token that is mounted automatically, and valid for a year", *pod.AutomountServiceAccountToken, false)
			equal(t, "the host's namespaces but for the network's", pod.HostPID || pod.HostIPC, false)
			equal(t, "the host's network", pod.HostNetwork, true)
			equal(t, "ports", len(agent.Ports), 0)
			equal(t, "the priority", pod.PriorityClassName, "system-node-critical")
			equal(t, "tolerations", pod.Tolerations, []corev1.Toleration{{Operator: corev1.TolerationOpExists}})
			equal(t, "nodes", pod.NodeSelector, map[string]string{"kubernetes.io/os": "linux"})
			for what, probe := range map[string]*corev1.Probe{"/healthz": agent.LivenessProbe, "/readyz": agent.ReadinessProbe} {
				equal(t, "the probe of "+what, fmt.Sprint(probe.HTTPGet.Host, " ", probe.HTTPGet.Port.IntValue(), " ", probe.HTTPGet.Path), "127.0.0.1 9746 "+what)
			}
			fields := map[string]string{}
			for _, e := range agent.Env {
				fields[e.Name] = e.ValueFrom.FieldRef.FieldPath
			}
			equal(t, "the environment", fields, map[string]string{"NODE_NAME": "spec.nodeName", "POD_UID": "metadata.uid"})

			equal(t, "the pod's security context", *pod.SecurityContext, corev1.PodSecurityContext{
				RunAsUser:      ptr.To(int64(0)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				SELinuxOptions: pod.SecurityContext.SELinuxOptions,
			})
			equal(t, "the SELinux options", ptr.Deref(pod.SecurityContext.SELinuxOptions, corev1.SELinuxOptions{}), corev1.SELinuxOptions{Type: c.seLinux})
			equal(t, "the container's security context", *agent.SecurityContext, corev1.SecurityContext{
				Privileged: ptr.To(false), AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			})

			folders := map[string]string{}
			for _, v := range pod.Volumes {
				if p := v.Projected; p != nil && v.Name == "token" {
					equal(t, "for how long its token is valid", *p.Sources[0].ServiceAccountToken.ExpirationSeconds, 6*60*60)
					equal(t, "what else it has", p.Sources[1].ConfigMap.Name, "kube-root-ca.crt")
					folders[v.Name] = "/var/run/secrets/kubernetes.io/serviceaccount"
					continue
				}
				if v.HostPath == nil {
					t.Errorf("the volume %s is not a folder of the host", v.Name)
					continue
				}
				folders[v.Name] = v.HostPath.Path
			}
			var mounts []string
			for _, m := range agent.VolumeMounts {
				mounts = append(mounts, m.MountPath)
				equal(t, m.MountPath+" is the same folder on the host", folders[m.Name], m.MountPath)
				equal(t, m.MountPath+" is read-only", m.ReadOnly, true)
				if m.Name != "token" {
					equal(t, m.MountPath+" follows the host", ptr.Deref(m.MountPropagation, ""), corev1.MountPropagationHostToContainer)
				}
			}
			equal(t, "volumes", len(pod.Volumes), len(mounts))
			equal(t, "mounts", mounts, []string{c.socket, "/var/lib/cni", "/run/netns", "/var/run/netns", folders["token"]})

			for _, o := range objects {
				switch o.GetKind() {
				case "ValidatingAdmissionPolicy":
					equal(t, "what happens when the policy cannot be evaluated", o.Object["spec"].(map[string]any)["failurePolicy"], "Fail")
					continue
				case "SecurityContextConstraints":
				default:
					continue
				}
				for field, want := range map[string]any{
					"allowPrivilegedContainer": false, "allowPrivilegeEscalation": false, "allowHostPID": false, "allowHostIPC": false,
					"readOnlyRootFilesystem": true, "requiredDropCapabilities": []any{"ALL"}, "volumes": []any{"hostPath", "projected", "secret"},
				} {
					equal(t, field, o.Object[field], want)
				}
			}
		})
	}
}
