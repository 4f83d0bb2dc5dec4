//go:build !linux

package memory

// keepDroppingFilePages does nothing: nodes and containers run Linux.
func keepDroppingFilePages(bool) {}
