//go:build !linux

package client

// Loop does nothing on this system: each Client's connection has goroutines of its own.
type Loop struct{}

// NewLoop returns a Loop.
func NewLoop() (*Loop, error) { return &Loop{}, nil }

// Close does nothing.
func (*Loop) Close() {}

func (*Loop) take(*link) bool { return false }
