package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// endOnHangup returns a context that also ends when the terminal or the ssh of the command is lost, as after Ctrl-C. A
// command under nohup continues.
func endOnHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return ctx, func() {}
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// outliveReaders lets this process continue after the reader of its stdout or stderr, such as head, has ended. Otherwise
// SIGPIPE would end it while something is broken. The write fails.
func outliveReaders() (restore func()) {
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, syscall.SIGPIPE)
	return func() { signal.Stop(ignored) }
}
