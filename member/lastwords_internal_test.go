package member

import (
	"strings"
	"testing"
	"time"

	"rollcall/proto"
)

// Last words are kept until another process of the member says Hello, are bounded, and are those of that member alone.
func TestLastWordsAreKept(t *testing.T) {
	now := time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)
	l := newLastWords(func() time.Time { return now })
	hello := func(process uint64, words string) (string, bool) {
		return l.record(2, &proto.HelloRequest{Member: 2, Start: process, LastWords: words})
	}
	if text, isNew := hello(7, ""); text != "" || isNew || l.describe(2) != "" {
		t.Errorf("a Hello without last words: %q, %t, %q", text, isNew, l.describe(2))
	}
	if text, isNew := hello(7, "the disk is full"); text != "the disk is full" || !isNew {
		t.Errorf("last words: %q, %t", text, isNew)
	}
	if _, isNew := hello(7, "the disk is full"); isNew {
		t.Error("the same words are new twice")
	}
	if _, isNew := hello(7, ""); isNew || l.describe(2) != "its last words, at 2026-11-30 03:00:00 UTC: the disk is full" {
		t.Errorf("a late Hello of the same process: %t, %q", isNew, l.describe(2))
	}
	if l.describe(3) != "" {
		t.Errorf("member 3: %q", l.describe(3))
	}
	hello(8, "")
	if l.describe(2) != "" {
		t.Errorf("the member is back, and %q is kept", l.describe(2))
	}
	long, _ := hello(8, strings.Repeat("ä", maxLastWords))
	if len(long) > maxLastWords || strings.Trim(long, "ä") != "" {
		t.Errorf("%d bytes are kept: %q", len(long), long)
	}
}

// The last words of a member that answers again are forgotten.
func TestLastWordsAreForgotten(t *testing.T) {
	l := newLastWords(time.Now)
	l.record(2, &proto.HelloRequest{Start: 7, LastWords: "the disk is full"})
	if l.describe(2) == "" {
		t.Fatal("the words are not kept")
	}
	l.forget(2)
	if got := l.describe(2); got != "" {
		t.Errorf("after an answer: %s", got)
	}
}
