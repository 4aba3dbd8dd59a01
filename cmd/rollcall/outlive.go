package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// endOnHangup returns a context that also ends when the terminal or the ssh of the command is lost, as after Ctrl-C. A
// command under nohup goes on.
func endOnHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return ctx, func() {}
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// outliveReaders lets this process go on when whoever reads its stdout or stderr has ended, such as head. Otherwise
// SIGPIPE would end it while something is broken. The write fails.
func outliveReaders() (restore func()) {
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, syscall.SIGPIPE)
	return func() { signal.Stop(ignored) }
}
