package shell

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/term"
)

// What a terminal would not simply show is replaced there, and only there. Lines and tabs stay.
func TestHostileBytes(t *testing.T) {
	const text = "a\x1b[31m\tb\rc\nd\n"
	for _, terminal := range []bool{true, false} {
		var out, errs strings.Builder
		s := newScreen(&Config{Out: &out, Err: &errs, OutTerminal: terminal, ErrTerminal: terminal, Colors: true, EscapeText: visible})
		s.print(text)
		s.printMessage(errorStyle, strings.TrimSuffix(text, "\n"))
		s.postEvent(text)
		if err := s.flush(); err != nil {
			t.Fatal(err)
		}
		want, wantErr := text+text, text
		if terminal {
			want = "a?[31m\tb?c\nd\n" + "\x1b[36ma?[31m\tb?c\nd\x1b[0m\n"
			wantErr = "\x1b[31ma?[31m\tb?c\nd\x1b[0m\n"
		}
		if out.String() != want || errs.String() != wantErr {
			t.Errorf("terminal %t: printed %q and %q, want %q and %q", terminal, &out, &errs, want, wantErr)
		}
	}
}

// Events never wait for a terminal. Those that find no room are counted.
func TestPostedIsBounded(t *testing.T) {
	var out strings.Builder
	s := newScreen(&Config{Out: &out, EscapeText: visible})
	for i := range maxPosted + 5 {
		s.postEvent(fmt.Sprint("event ", i, "\n"))
	}
	s.print("answer\n")
	s.postEvent(strings.Repeat("x", maxPostedBytes) + "\n")
	if err := s.flush(); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.HasPrefix(text, "event 0\n") || !strings.HasSuffix(text, fmt.Sprintf("event %d\n\n5 more events are not shown\nanswer\n\n1 more events are not shown\n", maxPosted-1)) {
		t.Errorf("%d bytes; the end is %q", len(text), text[len(text)-100:])
	}
}

// Hints are for people: a file or pipe gets none.
func TestHints(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		var errs strings.Builder
		s := newScreen(&Config{Out: &strings.Builder{}, Err: &errs, ErrTerminal: terminal, EscapeText: visible})
		s.postHint("look")
		_ = s.flush()
		if want := map[bool]string{true: "look\n"}[terminal]; errs.String() != want {
			t.Errorf("terminal %t: %q", terminal, &errs)
		}
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("no space") }

// A shell ends when its output cannot be written.
func TestOutputFails(t *testing.T) {
	_, err := Run(t.Context(), Config{Hosts: addr, In: endlessReader{}, Out: brokenWriter{}, Err: brokenWriter{}, EscapeText: visible})
	if err == nil || !strings.Contains(err.Error(), "shell: print: no space") {
		t.Errorf("%v", err)
	}
}

// endlessReader has lines without end.
type endlessReader struct{}

func (endlessReader) Read(p []byte) (int, error) { return copy(p, "version\n"), nil }

// A prompt is computed and set under the screen's lock. Otherwise an event could come between the two, and the
// prompt of before the event would stay.
func TestPromptIsOfNow(t *testing.T) {
	s := newScreen(&Config{Out: &strings.Builder{}, EscapeText: visible})
	s.terminal = term.NewTerminal(&bytes.Buffer{}, "")
	asked := 0
	s.prompt = func() string {
		if asked++; s.mu.TryLock() {
			s.mu.Unlock()
			t.Error("the prompt is asked for without the lock")
		}
		return "now "
	}
	s.renewPrompt()
	s.postEvent("an event\n")
	if err := s.flush(); err != nil || asked != 2 {
		t.Errorf("asked %d times, %v", asked, err)
	}
}

// A name cannot forge lines on a terminal. With Escape nothing can in a pipe, data included; without it a pipe gets what is there.
func TestNamesKeepTheirLine(t *testing.T) {
	const text = "a\nb\x1b"
	escape := func(text string) string { return strings.NewReplacer("\n", `\n`, "\x1b", `\x1b`).Replace(text) }
	for _, tt := range []struct {
		terminal, escape bool
		names, data      string
	}{
		{false, false, "[a\nb\x1b, c]\n", "a\nb\x1b"},
		{true, false, `[a\nb\x1b, c]` + "\n", "a\nb" + `\x1b`},
		{false, true, `[a\nb\x1b, c]` + "\n", `a\nb\x1b`},
	} {
		var out strings.Builder
		s := newScreen(&Config{Out: &out, OutTerminal: tt.terminal, Escape: tt.escape, EscapeText: escape})
		s.print(s.names([]string{text, "c"}))
		s.print(s.data(text))
		if err := s.flush(); err != nil || out.String() != tt.names+tt.data {
			t.Errorf("%+v: %q, %v", tt, out.String(), err)
		}
	}
}
