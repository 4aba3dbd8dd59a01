//go:build !linux

package cli

// stepBehind does nothing here.
func stepBehind() {}
