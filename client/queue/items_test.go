package queue

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"rollcall/client"
)

func TestDecodeItems(t *testing.T) {
	tests := []struct {
		name, data string
		want       []string
		malformed  bool
	}{
		{"one item", "\x00\x01\x00\x01\x01\x00\x00\x00\x02ab\x02", []string{"ab"}, false},
		{"no item", "\x00\x01\x00\x01\x02", nil, false},
		{"two items", "\x00\x01\x00\x01\x01\x00\x00\x00\x00\x01\x00\x00\x00\x01x\x02", []string{"", "x"}, false},
		{"bytes after the end", "\x00\x01\x00\x01\x02\x09", nil, false},
		{"empty", "", nil, true},
		{"another version", "\x00\x01\x00\x02\x02", nil, true},
		{"no end", "\x00\x01\x00\x01\x01\x00\x00\x00\x01x", nil, true},
		{"an unknown part", "\x00\x01\x00\x01\x03\x00\x00\x00\x00", nil, true},
		{"an item past the end", "\x00\x01\x00\x01\x01\x00\x00\x00\x09x\x02", nil, true},
		{"an item of 4 GiB", "\x00\x01\x00\x01\x01\xff\xff\xff\xffx\x02", nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			items, err := decodeItems([]byte(tt.data))
			if errors.Is(err, ErrMalformed) != tt.malformed || fmt.Sprintf("%q", items) != fmt.Sprintf("%q", tt.want) {
				t.Errorf("decodeItems = %q, %v, want %q", items, err, tt.want)
			}
		})
	}
}

// Whatever is encoded is decoded, and no data make decodeItems panic.
func FuzzDecodeItems(f *testing.F) {
	f.Add([]byte("\x00\x01\x00\x01\x01\x00\x00\x00\x02ab\x02"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = decodeItems(data)
		items, err := decodeItems(encodeItem(data))
		if err != nil || len(items) != 1 || !bytes.Equal(items[0], data) {
			t.Errorf("decodeItems(encodeItem(%q)) = %q, %v", data, items, err)
		}
	})
}

// The names of a batch are the first ones that are not taken, whatever order the server lists them in.
func TestFirst(t *testing.T) {
	var elements, want []string
	for i := range 100 {
		name := fmt.Sprintf("queue-%010d", (i*37)%100)
		elements = append(elements, name)
	}
	elements = append(elements, "foreign", "a")
	taken := []string{"queue-0000000001", "queue-0000000003", "line", "receipts"}
	for _, n := range []int{0, 2, 4, 5, 6} {
		want = append(want, fmt.Sprintf("queue-%010d", n))
	}
	q := New(new(client.Client), "/q", Config{Batch: 5})
	if got := q.selectFirst(elements, taken); !slices.Equal(got, want) {
		t.Errorf("first = %q, want %q", got, want)
	}
	if got := New(new(client.Client), "/q", Config{}).selectFirst(elements, taken); len(got) != 98 {
		t.Errorf("first has %d names, want 98", len(got))
	}
}

// A batch of names does not keep the memory of the list that they come from.
func TestFirstKeepsNoList(t *testing.T) {
	const length = 40
	var list strings.Builder
	for i := range 100 {
		fmt.Fprintf(&list, "queue-%034d", i)
	}
	text := list.String()
	var elements []string
	for at := 0; at < len(text); at += length {
		elements = append(elements, text[at:at+length])
	}
	begin := uintptr(unsafe.Pointer(unsafe.StringData(text)))
	for _, name := range New(new(client.Client), "/q", Config{Batch: 5}).selectFirst(elements, nil) {
		if at := uintptr(unsafe.Pointer(unsafe.StringData(name))); at >= begin && at < begin+uintptr(len(text)) {
			t.Errorf("%s shares the memory of the list", name)
		}
	}
}

// The names of priorities are in the order of the priorities, as text.
func TestNameOf(t *testing.T) {
	last := ""
	for _, priority := range []int32{-1 << 31, -2, -1, 0, 1, 10, 1<<31 - 1} {
		name := namePrefixOf(priority, true)
		if name <= last || len(name) != len("queue-1")+8 {
			t.Errorf("nameOf(%d) = %q after %q", priority, name, last)
		}
		last = name
	}
}
