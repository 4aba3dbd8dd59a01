package shared

import (
	"errors"
	"math"
	"testing"

	"rollcall/client"
)

// Each encoding reads what it writes, and returns an error for values that it cannot hold.
func TestEncodings(t *testing.T) {
	for _, encoding := range []Encoding{Int32, Int64, Decimal} {
		for _, n := range []int64{
			0, 1, -1, math.MaxInt32, math.MinInt32, math.MaxInt32 + 1, math.MinInt32 - 1, math.MaxInt64, math.MinInt64,
		} {
			data, err := encoding.encodeNumber(n)
			if fits := n == int64(int32(n)); encoding == Int32 && !fits {
				if !errors.Is(err, ErrOverflow) {
					t.Errorf("encoding %d of %d: %v, want ErrOverflow", encoding, n, err)
				}
				continue
			}
			if got, decodeErr := encoding.decodeNumber(data); err != nil || decodeErr != nil || got != n {
				t.Errorf("encoding %d of %d: %d, %v, %v", encoding, n, got, err, decodeErr)
			}
		}
		if n, err := encoding.decodeNumber(nil); n != 0 || err != nil {
			t.Errorf("encoding %d of no data: %d, %v, want 0", encoding, n, err)
		}
	}
	for encoding, data := range map[Encoding]string{
		Int32: "\x00\x00\x00\x00\x00", Int64: "\x00\x00\x00\x00", Decimal: "1.5",
	} {
		if _, err := encoding.decodeNumber([]byte(data)); !errors.Is(err, ErrNoNumber) {
			t.Errorf("encoding %d of %q: %v, want ErrNoNumber", encoding, data, err)
		}
	}
}

// Another node, or another version, is another revision.
func TestIsSame(t *testing.T) {
	r := Revision{Exists: true, Stat: client.Stat{Created: 7, Version: 3}}
	for want, other := range map[string]Revision{
		"same": r, "missing": {Stat: r.Stat},
		"another node":    {Exists: true, Stat: client.Stat{Created: 8, Version: 3}},
		"another version": {Exists: true, Stat: client.Stat{Created: 7, Version: 4}},
	} {
		if same := r.isSame(other); same != (want == "same") {
			t.Errorf("%s: the same revision: %t", want, same)
		}
	}
}
