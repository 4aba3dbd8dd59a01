package shell

import "testing"

// Ctrl-C between the end of a line and the start of its command interrupts the command, and drops what was typed ahead.
// One before the line has cleared what stood there.
func TestInterruptBeforeCommandStarts(t *testing.T) {
	for typed, want := range map[string]bool{
		"ls /\r": false, "ls /\r\x03": true, "ls /\rget /a\r\x03": true, "\x03ls /\r": false, "x\x03\x03ls /\r": false,
	} {
		k := newKeyboard()
		k.appendAndWait([]byte(typed), nil)
		p := make([]byte, len(clearLine)*len(typed))
		for line := ""; line != "ls /\r"; {
			n, err := k.Read(p)
			if line = string(p[:n]); err != nil {
				t.Fatalf("%q: Read = %q, %v", typed, line, err)
			}
		}
		interrupted := false
		k.setInterrupt(func() { interrupted = true })
		if interrupted != want || len(k.typed) > 0 {
			t.Errorf("%q: interrupted: %t, want %t; %q is left", typed, interrupted, want, k.typed)
		}
	}
}
