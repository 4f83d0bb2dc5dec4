//go:build !linux

package residentmem

// GiveBack does nothing: nodes and containers run Linux.
func GiveBack() {}

// KeepGivingBack does nothing: nodes and containers run Linux.
func KeepGivingBack() {}

// ReadSparsely does nothing: nodes and containers run Linux.
func ReadSparsely() {}
