// Package cnicache reads a node's CNI caches: the results that libcni keeps for the
// container runtime, those that it keeps for Multus, and the list of networks that
// Multus keeps for each container. They have a sandbox before the runtime lists it, and
// after a DEL was lost; and they hold the addresses that are really configured.
//
// Cache (cache.go) reads the folders and returns an Entry for each container id
// (entry.go). A folder (folder.go) remembers the files that did not change; a file is
// parsed in parse.go, its result in result.go and its network config in config.go.
package cnicache
