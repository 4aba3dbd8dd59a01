package past_test

import (
	"errors"
	"testing"

	"rollcall/operator/past"
	"rollcall/operator/past/pasttest"
	"rollcall/znode"
)

// Before a gap, moments of the log can be built, and those after it are errors. A list of changes ends with one.
func TestBeforeGap(t *testing.T) {
	e := pasttest.New(t, begin)
	c := e.Connect("10.0.0.1:1")
	c.Create("/a", "", 0)
	e.NowMs = begin + 1000
	last := c.Create("/b", "", 0)
	chain := past.BeforeGap(e)
	for _, tt := range []struct {
		name string
		at   past.Moment
		want error
	}{
		{"the last transaction", past.AtZxid(last), nil},
		{"a time before the last entry", atMs(begin + 500), nil},
		{"a time after the last entry", atMs(begin + 2000), past.ErrGap},
		{"a later transaction", past.AtZxid(last + 1), past.ErrGap},
	} {
		l, err := past.Open(t.Context(), chain, tt.at)
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		if err == nil {
			l.Close()
		}
	}
	l, err := past.OpenOldest(t.Context(), chain)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	changes := 0
	err = l.Advance(past.Moment{}, func(*znode.Change) error { changes++; return nil })
	if !errors.Is(err, past.ErrGap) || changes != 3 {
		t.Errorf("%d changes, and then %v", changes, err)
	}
}
