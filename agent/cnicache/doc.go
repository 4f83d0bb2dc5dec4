// Package cnicache reads the CNI caches of a node: libcni's results for the container runtime, libcni's results for
// Multus, and Multus' list of networks of each container. A sandbox is in these caches before the runtime lists it,
// and stays there after a lost DEL. They have the addresses that are really configured.
//
// Cache (cache.go) returns an Entry for each container id (entry.go). folder (folder.go) keeps files that did not
// change. Files are parsed in parse.go, results in result.go and network configs in config.go.
package cnicache
