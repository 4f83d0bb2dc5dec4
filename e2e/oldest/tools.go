//go:build tools

// Package oldest pins the oldest API server on which the fast tests run (make test-oldest).
package oldest

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
