//go:build !linux

package cli

// lowerPriority does nothing here.
func lowerPriority() {}
