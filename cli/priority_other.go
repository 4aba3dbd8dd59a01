//go:build !linux

package cli

func lowerPriority() {}
