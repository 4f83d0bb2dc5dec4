//go:build !linux

package memory

// DropFilePages does nothing: nodes and containers run Linux.
func DropFilePages() {}

// KeepDroppingFilePages does nothing: nodes and containers run Linux.
func KeepDroppingFilePages() {}

// ReadFileSparsely does nothing: nodes and containers run Linux.
func ReadFileSparsely() {}
