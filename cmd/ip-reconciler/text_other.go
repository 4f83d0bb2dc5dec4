//go:build !linux

package main

// sparseText does nothing: containers run Linux.
func sparseText() {}
