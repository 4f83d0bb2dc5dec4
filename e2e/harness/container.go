package harness

import (
	"context"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

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
