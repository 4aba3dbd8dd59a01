package shell

import (
	"bytes"
	"io"
	"sync"
)

const (
	// maxReadAhead limits the bytes that are read ahead while a command runs. Beyond it the terminal keeps
	// further input, and Ctrl-C is noticed only after the commands before it.
	maxReadAhead = 64 << 10
	ctrlC        = 3 // sent by a terminal in raw mode
	// clearLine moves to the end of the line, deletes the line, and enters it.
	clearLine = "\x05\x15\r"
)

// keyboard reads the terminal all the time, so that Ctrl-C interrupts a running command. It is the reader of
// the edited line.
type keyboard struct {
	mu        sync.Mutex
	changed   *sync.Cond // uses mu; signals changes of the next fields
	typed     []byte
	clearEnd  int // the end in typed of the last clearLine that Ctrl-C has left there; 0: none
	err       error
	interrupt func() // interrupts the running command; nil: none runs
}

func newKeyboard() *keyboard {
	k := &keyboard{}
	k.changed = sync.NewCond(&k.mu)
	return k
}

// readAhead reads from in until that fails. After endWith it ends at the next input.
func (k *keyboard) readAhead(in io.Reader) {
	buf := make([]byte, 4<<10)
	for {
		n, err := in.Read(buf)
		if !k.appendAndWait(buf[:n], err) {
			return
		}
	}
}

// appendAndWait appends input, waits until there is room for more, and reports whether to go on reading.
func (k *keyboard) appendAndWait(read []byte, err error) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, b := range read {
		switch {
		case b != ctrlC:
			k.typed = append(k.typed, b)
		case k.interrupt != nil:
			k.interruptNow()
		default:
			k.typed = append(k.typed, clearLine...)
			k.clearEnd = len(k.typed)
		}
	}
	if err != nil && k.err == nil {
		k.err = err
	}
	k.changed.Broadcast()
	for len(k.typed) >= maxReadAhead && k.err == nil {
		k.changed.Wait()
	}
	return k.err == nil
}

// interruptNow interrupts the running command, and drops what was typed ahead. The lock is held.
func (k *keyboard) interruptNow() {
	k.typed, k.clearEnd = k.typed[:0], 0
	k.changed.Broadcast()
	k.interrupt()
}

// endWith makes Read fail with err once all input is read.
func (k *keyboard) endWith(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		k.err = err
	}
	k.changed.Broadcast()
}

// Read implements io.Reader. It blocks until there is input. It returns one line at most, so that what comes after a
// line is still here when the line's command begins.
func (k *keyboard) Read(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.typed) == 0 && k.err == nil {
		k.changed.Wait()
	}
	if len(k.typed) == 0 {
		return 0, k.err
	}
	line := k.typed
	if i := bytes.IndexByte(line, '\r'); i >= 0 {
		line = line[:i+1]
	}
	n := copy(p, line)
	k.typed = append(k.typed[:0], k.typed[n:]...)
	k.clearEnd = max(0, k.clearEnd-n)
	k.changed.Broadcast()
	return n, nil
}

// setInterrupt sets the action of Ctrl-C. If it is nil, Ctrl-C clears the line. A Ctrl-C that was typed after the line of
// the command, and before this call, is meant for the command.
func (k *keyboard) setInterrupt(interrupt func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.interrupt = interrupt
	if interrupt != nil && k.clearEnd > 0 {
		k.interruptNow()
	}
}
