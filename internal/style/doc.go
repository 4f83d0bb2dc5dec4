// Package style has the test that checks how the sources are written. It has no code of its own.
package style
