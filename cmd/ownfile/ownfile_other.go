//go:build !linux

package ownfile

// GiveBack does nothing: nodes and containers run Linux.
func GiveBack() {}

// ReadSparsely does nothing: nodes and containers run Linux.
func ReadSparsely() {}
