//go:build tools

// Package newest pins the newest API server on which the fast tests run (make test-newest).
package newest

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
