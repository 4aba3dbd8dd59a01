package queue

import (
	"errors"
	"strings"
	"testing"
	"time"

	"rollcall/client"
)

// The text of an error describes the fault of an element and its place.
func TestMalformedTexts(t *testing.T) {
	for data, want := range map[string]string{
		"\x00\x01\x00":                          "version 000100, want 00010001",
		"\x00\x01\x00\x02\x02":                  "version 00010002, want 00010001",
		"\x00\x01\x00\x01":                      "no item and no end at byte 4 of 4",
		"\x00\x01\x00\x01\x01\x00\x00\x00":      "no item and no end at byte 4 of 8",
		"\x00\x01\x00\x01\x01\x00\x00\x00\x00":  "no item and no end at byte 9 of 9",
		"\x00\x01\x00\x01\x01\x00\x00\x00\x01x": "no item and no end at byte 10 of 10",
		"\x00\x01\x00\x01\x01\x00\x00\x00\x02x": "an item of 2 bytes in 10",
		"\x00\x01\x00\x01\x03\x00\x00\x00\x00":  "no item and no end at byte 4 of 9",
	} {
		items, err := decodeItems([]byte(data))
		if items != nil || !errors.Is(err, ErrMalformed) || !strings.HasSuffix(err.Error(), ": "+want) {
			t.Errorf("%q: %q, %v; want %s", data, items, err, want)
		}
	}
}

// The name of a priority matches Curator's DistributedPriorityQueue.
func TestNamesOfPriorities(t *testing.T) {
	for priority, want := range map[int32]string{0: "queue-100000000", 1: "queue-100000001", -1: "queue-0FFFFFFFF", 1<<31 - 1: "queue-17FFFFFFF", -1 << 31: "queue-080000000"} {
		if got := namePrefixOf(priority, true); got != want {
			t.Errorf("priority %d: %s, want %s", priority, got, want)
		}
	}
	if got := namePrefixOf(0, false); got != "queue-" {
		t.Errorf("without priorities: %s", got)
	}
}

// A priority needs a queue that has priorities. Nothing is sent.
func TestPriorityOfPlainQueue(t *testing.T) {
	q := New(new(client.Client), "/q", Config{})
	path, err := q.PutWithPriority(t.Context(), nil, 1)
	if path != "" || !errors.Is(err, ErrNoPriorities) || err.Error() != "queue: put into /q: the queue has no priorities: 1" {
		t.Errorf("%q, %v", path, err)
	}
}

// A Queue has the defaults of its Config, and keeps at most the requested number of names.
func TestQueueDefaults(t *testing.T) {
	for batch, want := range map[int]int{-1: DefaultBatch, 0: DefaultBatch, 1: 1, 7: 7} {
		if got := New(new(client.Client), "/q", Config{Batch: batch}).cfg.Batch; got != want {
			t.Errorf("batch %d: %d, want %d", batch, got, want)
		}
	}
	if got := New(new(client.Client), "/q", Config{}).lockPathOf("x"); got != "/q-locks/x" {
		t.Errorf("a lock is %s", got)
	}
	if got := New(new(client.Client), "/q", Config{Locks: "/l"}).lockPathOf("x"); got != "/l/x" {
		t.Errorf("a lock is %s", got)
	}
}

// Names that are kept are given in order, without a request, while they are young.
func TestKeptNames(t *testing.T) {
	q := New(new(client.Client), "/q", Config{})
	<-q.batch
	q.batch <- batch{[]string{"a", "b"}, time.Now()}
	for _, want := range []string{"a", "b"} {
		if name, err := q.nextName(t.Context()); name != want || err != nil {
			t.Errorf("%q, %v; want %q", name, err, want)
		}
	}
}
