package cli

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// lockedBuffer is a terminal on which several goroutines write.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

// take returns what was written since the last call.
func (b *lockedBuffer) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := b.text.String()
	b.text.Reset()
	return text
}

// A command that takes longer than two seconds shows its progress on a terminal, and removes the line when it is done.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, out, _ := testWorld()
		errs := new(lockedBuffer)
		w.Err, w.ErrTerminal = errs, true
		p := newProgress(w, "nodes", 200)
		p.Add(50)
		time.Sleep(progressAfter - time.Millisecond)
		synctest.Wait()
		if text := errs.take(); text != "" {
			t.Errorf("too early: %q", text)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if text, want := errs.take(), clearLine+"   2 s  [=======                       ] 50 of 200 nodes"; text != want {
			t.Errorf("%q, want %q", text, want)
		}
		p.Expect(0)
		time.Sleep(progressEvery)
		synctest.Wait()
		if text, want := errs.take(), clearLine+"   2 s  50 nodes"; text != want {
			t.Errorf("%q, want %q", text, want)
		}
		p.Done()
		p.Done()
		if text := errs.take(); text != clearLine || out.Len() > 0 {
			t.Errorf("at the end %q", text)
		}
	})
}

// Nothing is drawn for a command that is quick, nor without a terminal.
func TestNoProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, terminal := range []bool{false, true} {
			w, _, _ := testWorld()
			errs := new(lockedBuffer)
			w.Err, w.ErrTerminal = errs, terminal
			p := newProgress(w, "nodes", 0)
			if !terminal {
				time.Sleep(time.Minute)
			}
			p.Done()
			if text := errs.take(); text != "" {
				t.Errorf("terminal %t: %q", terminal, text)
			}
		}
	})
}

// More than all is a full bar.
func TestProgressLine(t *testing.T) {
	p := &progress{what: "nodes"}
	p.Expect(10)
	p.Add(11)
	if got := p.line(90 * time.Second); got != "  90 s  ["+strings.Repeat("=", barColumns)+"] 11 of 10 nodes" {
		t.Errorf("%q", got)
	}
}
