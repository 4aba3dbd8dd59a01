//go:build !linux

package main

// raiseTimerSlack does nothing here.
func raiseTimerSlack() {}
