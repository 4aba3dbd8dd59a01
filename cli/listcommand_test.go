package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/operator/api"
)

// connections sorts by each of its keys: by the values, not by their texts, and by rates and latencies with the greatest
// first.
func TestConnectionsSort(t *testing.T) {
	f := newFakeMember(t)
	rows := []api.Connection{
		{MemberID: 1, Number: 1, Address: "b:1", SessionID: "0x9", EstablishedAt: ago(time.Minute), Received: 900, Sent: 1, RequestsPerS: 0.1, BytesPerS: 2 << 10, AvgUs: 30, MaxUs: 40, LastZxid: "0x0"},
		{MemberID: 2, Number: 1, Address: "c:1", EstablishedAt: ago(time.Hour), Received: 8, Sent: 20, RequestsPerS: 1000, BytesPerS: 1 << 20, AvgUs: 10, MaxUs: 900_000, LastZxid: "0x0"},
		{MemberID: 2, Number: 2, Address: "a:1", SessionID: "0x10", EstablishedAt: ago(time.Second), Received: 70, Sent: 3, RequestsPerS: 20.04, BytesPerS: 900, QueuedRequests: 7, AvgUs: 20, MaxUs: 50, LastZxid: "0x0"},
	}
	f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(api.List[api.Connection]{Items: rows})
	})
	for by, want := range map[string]string{
		"": "b c a", "member": "b c a", "-member": "c a b", "address": "a b c", "session": "c b a", "age": "a b c", "-age": "c b a", "received": "c a b",
		"-sent": "c a b", "rate": "c a b", "-rate": "c a b", "bytes": "c b a", "-queued": "a b c", "average": "b a c", "slowest": "c a b",
	} {
		out, _, err := f.execute(t, nil, "connections", "--sort", by)
		var got []string
		for line := range strings.Lines(out.String()) {
			if name, _, ok := strings.Cut(strings.Fields(line)[1], ":"); ok {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != want || err != nil {
			t.Errorf("--sort %q: %q, %v, want %s", by, got, err, want)
		}
	}
	out, _, err := f.execute(t, nil, "connections", "--sort", "rate", "--limit", "1")
	if text := out.String(); err != nil || strings.Count(text, "\n") != 2 || !strings.Contains(text, "1000/s  1.0 MiB/s") {
		t.Errorf("%v: %s", err, text)
	}
}

// --watch says in words what has changed in a row since the list before, and which rows are new. On a terminal the
// changed cells have a colour.
func TestWatchMarksChanges(t *testing.T) {
	one := api.Connection{MemberID: 1, Number: 7, Address: "a:1", RequestsPerS: 1, LastZxid: "0x0"}
	faster, two := one, one
	faster.RequestsPerS, faster.QueuedRequests, faster.Received, two.Number = 40, 3, 99, 8
	lists := [][]api.Connection{{one}, {faster, two}, {faster, two}, {two}, {one, two}}
	want := []string{"", "queued|new", "|", "", "new|"}
	f := newFakeMember(t)
	var stop func()
	asked := 0
	f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(api.List[api.Connection]{Items: lists[min(asked, len(lists)-1)]})
		if asked++; asked > len(lists) {
			stop()
		}
	})
	for _, colours := range []bool{false, true} {
		asked = 0
		out, _, err := f.executeUntil(t, func(w *IOStreams, end func()) {
			stop = end
			if colours {
				w.OutTerminal, w.TerminalSize = true, func() (int, int) { return 200, 50 }
			}
		}, "connections", "--watch", "--every", "200ms")
		if err != nil {
			t.Fatal(err)
		}
		text := out.String()
		if marked := strings.Contains(text, string(Cyan)+"3"+tintReset); marked != colours || strings.Contains(text, string(Cyan)+"40/s") {
			t.Errorf("colours %t: %q", colours, text)
		}
		if colours {
			continue
		}
		var got []string
		for list := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
			head, body, _ := strings.Cut(list, "\n")
			var marks []string
			for line := range strings.Lines(body) {
				line = strings.TrimSuffix(line, "\n")
				marks = append(marks, line[min(len(line), strings.Index(head, "CHANGED")):])
			}
			got = append(got, strings.Join(marks, "|"))
		}
		if !slices.Equal(got[:min(len(got), len(want))], want) {
			t.Errorf("%q, want %q, in\n%s", got, want, text)
		}
	}
}

// A watch remembers and marks no more than maxMarkedRows rows. Further ones are in the list, without a mark.
func TestMarkedRowsAreBounded(t *testing.T) {
	var m changeMarks[int]
	columns := []Column[int]{{Name: "n", Cell: func(n int) string { return fmt.Sprint(n) }, MarkChanges: true}}
	key := func(n int) string { return fmt.Sprint(n) }
	for range 2 {
		marked := m.next(columns, key)
		for n := range maxMarkedRows + 5 {
			if text := marked[1].Cell(n); text != "" {
				t.Fatalf("row %d: %s", n, text)
			}
		}
		if len(m.now) != maxMarkedRows {
			t.Errorf("%d rows are remembered", len(m.now))
		}
	}
	if text := m.next(columns, key)[1].Cell(-1); text != "" {
		t.Errorf("a row that the full memory may have missed: %s", text)
	}
}
