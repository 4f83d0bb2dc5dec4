//go:build tools

// Package containerd17 pins the containerd 1.7 on which `make test-runtimes` runs tests.
package containerd17

import (
	_ "github.com/containerd/containerd/cmd/containerd"
	_ "github.com/containerd/containerd/cmd/containerd-shim-runc-v2"
	_ "github.com/containerd/containerd/cmd/ctr"
	_ "github.com/opencontainers/runc"
)
