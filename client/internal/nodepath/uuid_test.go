package nodepath

import (
	"encoding/hex"
	"regexp"
	"strings"
	"testing"
)

// A UUID is a random one of version 4, and they differ.
func TestNewUUID(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	for range 100 {
		name := NewUUID()
		if !form.MatchString(name) || seen[name] {
			t.Errorf("%s is no random UUID, or has come before", name)
		}
		seen[name] = true
	}
}

// All bits of a UUID are random, except the bits of the version and of the variant.
func TestUUIDBits(t *testing.T) {
	var ones, zeros [16]byte // the bits that have been 1, and those that have been 0
	for range 1000 {
		id := NewUUID()
		b, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
		if err != nil || len(b) != 16 || len(id) != 36 || id[8] != '-' || id[13] != '-' || id[18] != '-' || id[23] != '-' {
			t.Fatal(id, err)
		}
		for i := range b {
			ones[i] |= b[i]
			zeros[i] |= ^b[i]
		}
	}
	for i := range ones {
		fixed := map[int][2]byte{6: {0x4f, 0xbf}, 8: {0xbf, 0x7f}} // the version is 4, and the variant begins with 10
		want, ok := fixed[i]
		if !ok {
			want = [2]byte{0xff, 0xff}
		}
		if got := [2]byte{ones[i], zeros[i]}; got != want {
			t.Errorf("byte %d has been 1 in the bits %#x, and 0 in %#x; want %#x", i, got[0], got[1], want)
		}
	}
}
