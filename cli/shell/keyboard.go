package shell

import (
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
			k.typed = k.typed[:0]
			k.interrupt()
		default:
			k.typed = append(k.typed, clearLine...)
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

// endWith makes Read fail with err once all input is read.
func (k *keyboard) endWith(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		k.err = err
	}
	k.changed.Broadcast()
}

// Read implements io.Reader. It blocks until there is input.
func (k *keyboard) Read(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.typed) == 0 && k.err == nil {
		k.changed.Wait()
	}
	if len(k.typed) == 0 {
		return 0, k.err
	}
	n := copy(p, k.typed)
	k.typed = append(k.typed[:0], k.typed[n:]...)
	k.changed.Broadcast()
	return n, nil
}

// setInterrupt sets the action of Ctrl-C. If it is nil, Ctrl-C clears the line.
func (k *keyboard) setInterrupt(interrupt func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.interrupt = interrupt
}
