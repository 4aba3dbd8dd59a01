package main

import (
	"strings"
	"testing"
)

// What a system lacks is found, in the body of a function and between files, and a program that is right passes.
func TestTargets(t *testing.T) {
	for _, tt := range []struct{ target, err string }{
		{"linux/amd64", ""},
		{"linux/arm64", ""},
		{"darwin/arm64", "system_darwin.go:8:50: undefined: syscall.EPOLLIN"},
		{"freebsd/amd64", "undefined: system"},
		{"linux", "a target is OS/ARCH"},
	} {
		err := checkTarget("testdata/program", tt.target)
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: %v, want %q", tt.target, err, tt.err)
		}
	}
}
