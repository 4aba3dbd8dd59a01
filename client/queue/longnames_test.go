package queue

import (
	"slices"
	"testing"

	"rollcall/client"
	"rollcall/client/internal/fakezk"
)

// An element whose create had no reply is found by its zxid, whatever form the numbers have, among elements with priorities
// too. The batches of takers are in the order of the numbers.
func TestLongNumbers(t *testing.T) {
	s := fakezk.New(t)
	s.CreateNode("/q")
	names := []string{"queue-0000000009", "queue-2147483646", "queue-2147483648", "queue-8999999999", "queue-9000000009000000000", "queue-9000000009000000001"}
	var zxids []client.Zxid
	for i, name := range names {
		zxids = append(zxids, client.Zxid(s.CreateNode("/q/"+name)))
		s.CreateNode([]string{"/q/queue-1000000010000000005", "/q/queue-1000000020000000006", "/q/foreign", "/q/queue-", "/q/queue-7", "/q/queue-x000000005"}[i])
	}
	c, err := client.Dial(t.Context(), "fake:1", client.Config{DialConn: s.DialConn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Abandon()
		s.AwaitConnectionsEnd()
	})
	q := New(c, "/q", Config{})
	for i, name := range names {
		if path, err := q.findCreated(t.Context(), namePrefix, zxids[i]); path != "/q/"+name || err != nil {
			t.Errorf("%s is found as %q, %v", name, path, err)
		}
	}
	shuffled := slices.Clone(names)
	slices.Reverse(shuffled)
	if got := q.selectFirst(shuffled, nil); !slices.Equal(got, names) {
		t.Errorf("a batch is %q", got)
	}
}
