//go:build !linux

package main

// takeSlack does nothing here.
func takeSlack() {}
