package cluster

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// writeToNilMap panics. Its name is in the stack.
func writeToNilMap(m map[string]int) { m["a"] = 1 }

// When steps panic, the text of the panic names the function in which that happened, also after a wait.
func TestStepsThatPanic(t *testing.T) {
	next, stop := pullSteps(func(wait func(time.Duration)) {
		wait(time.Second)
		writeToNilMap(nil)
	})
	defer stop()
	if d, more := next(); d != time.Second || !more {
		t.Errorf("the steps waited for %v, %t", d, more)
	}
	defer func() {
		text := fmt.Sprint(recover())
		for _, part := range []string{"assignment to entry in nil map", "cluster.writeToNilMap", "play_test.go"} {
			if !strings.Contains(text, part) {
				t.Errorf("the panic does not contain %q:\n%s", part, text)
			}
		}
	}()
	next()
}

// Steps that wait can be stopped. Their deferred calls are made, and the caller continues.
func TestStepsAreStopped(t *testing.T) {
	deferred, returned := false, false
	next, stop := pullSteps(func(wait func(time.Duration)) {
		defer func() { deferred = true }()
		wait(time.Second)
		t.Error("the steps went on")
	})
	next()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		stop()
		returned = true
	}()
	<-ended
	if !deferred || !returned {
		t.Errorf("the steps ended: %t, and stop returned: %t", deferred, returned)
	}
}

// Steps that end their goroutine, as t.Fatal does, end the test's goroutine too.
func TestStepsThatFail(t *testing.T) {
	ended, returned := make(chan struct{}), false
	go func() {
		defer close(ended)
		next, stop := pullSteps(func(func(time.Duration)) { runtime.Goexit() })
		defer stop()
		next()
		returned = true
	}()
	<-ended
	if returned {
		t.Error("the test went on")
	}
}
