package contender

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
)

const (
	uuid  = "0f8fad5b-d9cb-469f-a165-70867728950e"
	plain = "0f8fad5bd9cb469fa16570867728950e"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		layout Layout
		text   string
		want   Name
	}{
		{CuratorLock, "_c_" + uuid + "-lock-0000000001", Name{ID: uuid, Number: 1}},
		{CuratorLock, "_c_" + plain + "-lock-0000000012", Name{ID: plain, Number: 12}}, // of go-zookeeper/zk
		{CuratorLock, "_c_" + uuid + "-lock--2147483648", Name{ID: uuid, Number: -1 << 31}},
		{CuratorLock, "_c_" + uuid + "-lock-2147483648", Name{ID: uuid, Number: 1 << 31}},
		{CuratorLock, "_c_" + uuid + "-lock-8999999999", Name{ID: uuid, Number: 8_999_999_999}},
		{CuratorLock, "_c_" + uuid + "-lock-9000000009000000000", Name{ID: uuid, Number: 9_000_000_009_000_000_000}},
		{KazooReadWrite, plain + "__rlock__9000000009000000001", Name{ID: plain, Kind: Reader, Number: 9_000_000_009_000_000_001}},
		{CuratorReadWrite, "_c_" + uuid + "-__READ__0000000003", Name{ID: uuid, Kind: Reader, Number: 3}},
		{CuratorReadWrite, "_c_" + uuid + "-__WRIT__2147483647", Name{ID: uuid, Kind: Writer, Number: 1<<31 - 1}},
		{CuratorLatch, "_c_" + uuid + "-latch-0000000000", Name{ID: uuid}},
		{CuratorLease, "_c_" + uuid + "-lease-0000000000", Name{ID: uuid}},
		{KazooLock, plain + "__lock__0000000007", Name{ID: plain, Number: 7}},
		{KazooReadWrite, plain + "__rlock__0000000007", Name{ID: plain, Kind: Reader, Number: 7}},
		{KazooReadWrite, plain + "__lock__0000000007", Name{ID: plain, Kind: Writer, Number: 7}},
	} {
		c.want.Text = c.text
		if name, ok := c.layout.Parse(c.text); !ok || name != c.want {
			t.Errorf("%v: %q is %+v, %v; want %+v", c.layout, c.text, name, ok, c.want)
		}
	}
}

func TestParseForeign(t *testing.T) {
	for _, c := range []struct {
		layout Layout
		text   string
	}{
		{CuratorLock, ""},
		{CuratorLock, "0"},
		{CuratorLock, "lock-"},
		{CuratorLock, "lock-0000000001"},
		{CuratorLock, "_c_-lock-0000000001"},
		{CuratorLock, "_c_" + uuid + "-lock-1"},
		{CuratorLock, "_c_" + uuid + "-lock-"},
		{CuratorLock, "_c_" + uuid + "-lock-+000000001"},
		{CuratorLock, "_c_" + uuid + "-lock--0000000001x"},
		{CuratorLock, "_c_" + uuid + "-lock-9999999999"},  // such a number has 19 digits
		{CuratorLock, "_c_" + uuid + "-lock--2147483649"}, // no int32
		{CuratorLock, "_c_" + uuid + "-lock--9000000009000000000"},
		{CuratorLock, "_c_" + uuid + "-lock-0000000009000000000"},
		{CuratorLock, "_c_" + uuid + "-latch-0000000001"},
		{CuratorLock, "_c_" + uuid[1:] + "g-lock-0000000001"},
		{CuratorLock, plain + "__lock__0000000001"},
		{CuratorLock, "_c_x-lock-0000000001"},
		{CuratorLock, "_c_" + uuid[:35] + "-lock-0000000001"},
		{CuratorLock, "_c_" + plain[:31] + "-lock-0000000001"},
		{KazooLock, "x__lock__0000000001"},
		{KazooLock, plain + "__rlock__0000000001"},
		{KazooLock, uuid[:35] + "__lock__0000000001"},
		{KazooLock, "_c_" + uuid + "-lock-0000000001"},
	} {
		if name, ok := c.layout.Parse(c.text); ok {
			t.Errorf("%v knows %q: %+v", c.layout, c.text, name)
		}
	}
}

// What a layout makes, it knows, and no other layout of one kind does.
func TestLayoutKnowsItsNames(t *testing.T) {
	layouts := []Layout{CuratorLock, CuratorReadWrite, CuratorLatch, CuratorLease, KazooLock}
	for i, layout := range layouts {
		for kind := range layout.kindLabels {
			id := layout.newID()
			text := layout.namePrefix(id, Kind(kind)) + "0000000042"
			for j, other := range layouts {
				name, ok := other.Parse(text)
				if want := (Name{Text: text, ID: id, Kind: Kind(kind), Number: 42}); ok != (i == j) || ok && name != want {
					t.Errorf("%v: %q is %+v, %v", other, text, name, ok)
				}
			}
		}
	}
}

// Protection ids are random UUIDs, with the dashes that the layout's library writes.
func TestNewID(t *testing.T) {
	for _, layout := range []Layout{CuratorLock, KazooLock} {
		all, common := make([]byte, plainIDLength/2), bytes.Repeat([]byte{0xff}, plainIDLength/2)
		for range 200 {
			id := layout.newID()
			if dashed := layout.dashedIDs; idLength(id) != len(id) || (len(id) == dashedIDLength) != dashed {
				t.Fatalf("%v: the id is %q", layout, id)
			}
			raw, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
			if err != nil {
				t.Fatal(err)
			}
			for i, b := range raw {
				all[i], common[i] = all[i]|b, common[i]&b
			}
		}
		for i := range all {
			want, fixed := byte(0xff), byte(0)
			switch i {
			case 6:
				want, fixed = 0x4f, 0x40 // version 4
			case 8:
				want, fixed = 0xbf, 0x80 // variant 1
			}
			if all[i] != want || common[i] != fixed {
				t.Errorf("%v: byte %d of all ids has the bits %x, and always %x", layout, i, all[i], common[i])
			}
		}
	}
	if !CuratorReadWrite.dashedIDs || !CuratorLatch.dashedIDs || !CuratorLease.dashedIDs || KazooReadWrite.dashedIDs {
		t.Error("Curator's ids have dashes, and kazoo's have none")
	}
}

func TestOrder(t *testing.T) {
	reader, writer := "_c_"+uuid+"-__READ__0000000009", "_c_"+plain+"-__WRIT__0000000009"
	first := "_c_ffffffff" + uuid[8:] + "-__WRIT__0000000008"
	names, foreign := CuratorReadWrite.splitChildren([]string{"zeta", writer, reader, "alpha", first})
	var order []string
	for _, name := range names {
		order = append(order, name.Text)
	}
	if !slices.Equal(order, []string{first, reader, writer}) || !slices.Equal(foreign, []string{"alpha", "zeta"}) {
		t.Errorf("the order is %q, and foreign are %q", order, foreign)
	}
}

func TestForeignErrorText(t *testing.T) {
	err := error(&ForeignError{Parent: "/f", Names: []string{"a", "b", "c", "d", "e", "f", "g"}, Layout: CuratorReadWrite})
	want := "/f: the parent has children that are not contenders of its layout: a, b, c, d, e and 2 more. Its layout is " +
		"Curator's read-write lock, with the names _c_<id>-__READ__<number> and _c_<id>-__WRIT__<number>. " +
		"Use another parent, or the layout of those nodes; delete them if nothing uses them"
	if err.Error() != want || !errors.Is(err, ErrForeignContenders) {
		t.Errorf("the error is %q", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("_c_" + uuid + "-lock-0000000001")
	f.Add("_c_" + plain + "-__READ__-2147483648")
	f.Add(plain + "__lock__0000000007")
	f.Fuzz(func(t *testing.T, text string) {
		for _, layout := range []Layout{CuratorLock, CuratorReadWrite, CuratorLatch, KazooReadWrite} {
			name, ok := layout.Parse(text)
			if ok && !strings.HasPrefix(text, layout.namePrefix(name.ID, name.Kind)) {
				t.Errorf("%v: %q is %+v", layout, text, name)
			}
		}
	})
}
