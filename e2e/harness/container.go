package harness

import (
	"context"
	"fmt"
	"os"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ContainerSpec is a container of a pod.
type ContainerSpec struct {
	Name         string // "main" if empty
	Image        string // as given to ImportImage
	Command      []string
	Args         []string
	Env          map[string]string
	Mounts       []Mount
	ReadOnlyRoot bool
	DropAll      bool   // all capabilities, and no way to get one
	User         *int64 // root if nil
}

// A Mount puts a folder or file of the node into a container.
type Mount struct {
	OnNode, InContainer string
	ReadOnly            bool
	// Follow lets mounts that the node makes later appear in the container, as
	// HostToContainer does.
	Follow bool
}

// RunContainer makes a container in a sandbox of this Runtime and starts it.
func (r *Runtime) RunContainer(ctx context.Context, sandboxID string, c ContainerSpec) (id string, err error) {
	r.mu.Lock()
	sandbox := r.sandboxes[sandboxID]
	r.mu.Unlock()
	if sandbox == nil {
		return "", fmt.Errorf("sandbox %.12s is not of this Runtime", sandboxID)
	}
	if c.Name == "" {
		c.Name = "main"
	}
	if err := os.MkdirAll(sandbox.LogDirectory, 0o755); err != nil {
		return "", err
	}
	security := &cri.LinuxContainerSecurityContext{
		ReadonlyRootfs:   c.ReadOnlyRoot,
		NamespaceOptions: sandbox.Linux.SecurityContext.NamespaceOptions,
		Seccomp:          &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault},
	}
	if c.DropAll {
		security.Capabilities, security.NoNewPrivs = &cri.Capability{DropCapabilities: []string{"ALL"}}, true
	}
	if c.User != nil {
		security.RunAsUser = &cri.Int64Value{Value: *c.User}
	}
	config := &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: c.Name},
		Image:    &cri.ImageSpec{Image: c.Image},
		Command:  c.Command, Args: c.Args,
		LogPath: c.Name + ".log",
		Linux:   &cri.LinuxContainerConfig{SecurityContext: security},
	}
	for name, value := range c.Env {
		config.Envs = append(config.Envs, &cri.KeyValue{Key: name, Value: []byte(value)})
	}
	for _, m := range c.Mounts {
		mount := &cri.Mount{HostPath: m.OnNode, ContainerPath: m.InContainer, Readonly: m.ReadOnly}
		if m.Follow {
			mount.Propagation = cri.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
		}
		config.Mounts = append(config.Mounts, mount)
	}
	created, err := r.cri.CreateContainer(ctx, &cri.CreateContainerRequest{PodSandboxId: sandboxID, Config: config, SandboxConfig: sandbox})
	if err != nil {
		return "", fmt.Errorf("creating container %s: %w", c.Name, err)
	}
	if _, err := r.cri.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: created.ContainerId}); err != nil {
		return created.ContainerId, fmt.Errorf("starting container %s: %w", c.Name, err)
	}
	return created.ContainerId, nil
}

// Container is the status of a container: state, exit code, reason.
func (r *Runtime) Container(ctx context.Context, id string) (*cri.ContainerStatus, error) {
	answer, err := r.cri.ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: id})
	return answer.GetStatus(), err
}

// StopContainer ends a container, with SIGKILL after the timeout in seconds.
func (r *Runtime) StopContainer(ctx context.Context, id string, timeout int64) error {
	_, err := r.cri.StopContainer(ctx, &cri.StopContainerRequest{ContainerId: id, Timeout: timeout})
	return err
}

// KillContainers ends all containers of a sandbox with SIGKILL.
func (r *Runtime) KillContainers(ctx context.Context, sandboxID string) error {
	all, err := r.cri.ListContainers(ctx, &cri.ListContainersRequest{Filter: &cri.ContainerFilter{PodSandboxId: sandboxID}})
	if err != nil {
		return err
	}
	for _, c := range all.Containers {
		if err := r.StopContainer(ctx, c.Id, 0); err != nil {
			return err
		}
	}
	return nil
}
