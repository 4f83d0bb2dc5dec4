//go:build !linux

package agent

// isNamespace returns true. The agent runs on Linux only.
func isNamespace(string) bool { return true }

func receivesMounts(string) bool { return false }
