//go:build !linux

package agentcmd

// small does nothing: nodes run Linux.
func small() {}
