package shell

import (
	"io"
	"sync"
)

const (
	// maxReadAhead is how many bytes are read ahead while a command runs. Beyond it the terminal keeps
	// what is typed, and Ctrl-C is noticed after the commands before it.
	maxReadAhead = 64 << 10
	// ctrlC is what a terminal in raw mode sends for Ctrl-C.
	ctrlC = 3
	// clearLine moves to the end of the line, deletes all of it and ends it.
	clearLine = "\x05\x15\r"
)

// keyboard reads what is typed at any time, so that Ctrl-C ends a command that runs. It is a reader for
// the line that is edited.
type keyboard struct {
	mu        sync.Mutex
	changed   *sync.Cond // with mu: one of the next fields has changed
	typed     []byte
	err       error
	interrupt func() // ends the command that runs; nil: none runs
}

func newKeyboard() *keyboard {
	k := &keyboard{}
	k.changed = sync.NewCond(&k.mu)
	return k
}

// readAhead reads from in until that fails, or end was called and something more is typed.
func (k *keyboard) readAhead(in io.Reader) {
	buf := make([]byte, 4<<10)
	for {
		n, err := in.Read(buf)
		if !k.appendTyped(buf[:n], err) {
			return
		}
	}
}

// appendTyped keeps what has been read, waits until there is room for more, and reports whether more is
// wanted.
func (k *keyboard) appendTyped(read []byte, err error) bool {
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

// endWith makes Read fail with err once all that was typed is read.
func (k *keyboard) endWith(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		k.err = err
	}
	k.changed.Broadcast()
}

// Read implements io.Reader. It waits until something is typed.
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

// onInterrupt sets what Ctrl-C does from now on; nil: it clears the line.
func (k *keyboard) onInterrupt(interrupt func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.interrupt = interrupt
}
