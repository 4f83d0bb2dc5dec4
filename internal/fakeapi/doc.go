// Package fakeapi is an API server in memory for tests: the one idea of this repository of what a kube-apiserver does
// with resourceVersions, preconditions, JSON patches, conflicts, lists, watches and managedFields. Simulated histories
// and unit tests share it. What one test needs besides it refuses, delays or answers in front of it.
package fakeapi
