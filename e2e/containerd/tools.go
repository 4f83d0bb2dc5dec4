//go:build tools

// Package containerd pins the container runtime of the end-to-end tests. It is a
// module of its own, since it and e2e/parts want different versions of the same.
package containerd

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
	_ "github.com/containerd/containerd/v2/cmd/ctr"
	_ "github.com/opencontainers/runc"
)
