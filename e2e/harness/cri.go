package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// PodSpec is what kubelet gives a runtime about a pod. UID is the pod object's: Multus compares it.
type PodSpec struct {
	Namespace, Name, UID string
	Attempt              uint32
	Annotations          map[string]string
}

// dialCRI connects to a socket whose path changes with each boot.
func dialCRI(socket func() string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///cri",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket())
		}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 10 * time.Millisecond},
			MinConnectTimeout: time.Second,
		}))
}

// RunPod creates a sandbox as kubelet does. Multus needs the pod object.
func (r *Runtime) RunPod(ctx context.Context, p PodSpec) (id string, err error) {
	config := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: p.Name, Namespace: p.Namespace, Uid: p.UID, Attempt: p.Attempt},
		Hostname:     p.Name,
		Annotations:  p.Annotations,
		LogDirectory: filepath.Join(r.dir, "logs", p.UID),
		Labels: map[string]string{
			"io.kubernetes.pod.name": p.Name, "io.kubernetes.pod.namespace": p.Namespace, "io.kubernetes.pod.uid": p.UID,
		},
		Linux: &cri.LinuxPodSandboxConfig{
			CgroupParent: "/" + r.cgroup(),
			SecurityContext: &cri.LinuxSandboxSecurityContext{
				NamespaceOptions: &cri.NamespaceOption{Network: cri.NamespaceMode_POD, Pid: cri.NamespaceMode_CONTAINER,
					Ipc: cri.NamespaceMode_POD},
				Seccomp: &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault},
			},
		},
	}
	answer, err := r.cri.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: config})
	if err != nil {
		return "", fmt.Errorf("running the sandbox of %s/%s: %w", p.Namespace, p.Name, err)
	}
	return answer.PodSandboxId, nil
}

// StopPod ends the sandbox and its network; it stays listed.
func (r *Runtime) StopPod(ctx context.Context, id string) error {
	_, err := r.cri.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: id})
	return err
}

// RemovePod removes a stopped sandbox.
func (r *Runtime) RemovePod(ctx context.Context, id string) error {
	_, err := r.cri.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: id})
	return err
}

// KillContainers ends all containers of a sandbox with SIGKILL.
func (r *Runtime) KillContainers(ctx context.Context, sandboxID string) error {
	all, err := r.cri.ListContainers(ctx,
		&cri.ListContainersRequest{Filter: &cri.ContainerFilter{PodSandboxId: sandboxID}})
	for _, c := range all.GetContainers() {
		_, stopErr := r.cri.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: c.Id})
		err = errors.Join(err, stopErr)
	}
	return err
}

// Sandboxes lists the runtime's sandboxes.
func (r *Runtime) Sandboxes(ctx context.Context) ([]*cri.PodSandbox, error) {
	answer, err := r.cri.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	return answer.GetItems(), err
}

// Status is the verbose status of a sandbox.
func (r *Runtime) Status(ctx context.Context, id string) (*cri.PodSandboxStatusResponse, error) {
	return r.cri.PodSandboxStatus(ctx, &cri.PodSandboxStatusRequest{PodSandboxId: id, Verbose: true})
}

// SandboxInfo is what containerd's verbose status has beyond the CRI.
type SandboxInfo struct {
	PID         int `json:"pid"` // on the node
	RuntimeSpec struct {
		Linux struct {
			Namespaces []struct{ Type, Path string }
		}
	} `json:"runtimeSpec"`
}

// Info returns the info of the verbose status.
func (r *Runtime) Info(ctx context.Context, id string) (info SandboxInfo, err error) {
	status, err := r.Status(ctx, id)
	if err != nil {
		return info, err
	}
	if err = json.Unmarshal([]byte(status.Info["info"]), &info); err != nil {
		err = fmt.Errorf("reading the verbose status of sandbox %.12s: %w", id, err)
	}
	return info, err
}

// NetNS is the path, on the node, of a sandbox's network namespace.
func (r *Runtime) NetNS(ctx context.Context, id string) (string, error) {
	info, err := r.Info(ctx, id)
	if err != nil {
		return "", err
	}
	for _, n := range info.RuntimeSpec.Linux.Namespaces {
		if n.Type == "network" && n.Path != "" {
			return path.Join(NetNSDir, path.Base(n.Path)), nil
		}
	}
	return "", fmt.Errorf("sandbox %.12s has no network namespace of its own", id)
}
