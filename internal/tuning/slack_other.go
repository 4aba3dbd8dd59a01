//go:build !linux

package tuning

// RaiseTimerSlack does nothing here.
func RaiseTimerSlack() {}
