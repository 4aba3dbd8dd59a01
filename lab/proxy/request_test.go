package proxy

import (
	"strings"
	"testing"

	"rollcall/lab/proxy/tap"
	"rollcall/zk/jute"
)

// A path's pattern is the same in every run: sequence numbers and random ids are stars.
func TestPattern(t *testing.T) {
	for path, want := range map[string]string{
		"":           "",
		"/app/a-1":   "/app/a-1",
		"/year/2026": "/year/2026",
		"/lock/0f8fad5bd9cb469fa16570867728950e__lock__0000000012":             "/lock/*__lock__*",
		"/counter-receipts/receipt-LHDXITLN6NA6L2GKKCAJ7D42VH":                 "/counter-receipts/receipt-*",
		"/q/_c_7c9e6679-7425-40de-944b-e07fc1f90ae7-lock-0000000007/n":         "/q/_c_*-lock-*/n",
		"/election/n_-2147483648":                                              "/election/n_-*",
		"/members/0x1dc6ad00c3f0000":                                           "/members/*",
		"/lock/x-72058693549555712-0000000001":                                 "/lock/x-*-*",
		"/rollcall/" + strings.Repeat("e", 11) + "/" + strings.Repeat("f", 12): "/rollcall/eeeeeeeeeee/*",
	} {
		if got := patternOf(path); got != want {
			t.Errorf("pattern(%q) = %q, want %q", path, got, want)
		}
	}
}

// A point is read as it is written. Any other text is an error that describes the form.
func TestPointsAsText(t *testing.T) {
	for _, p := range []Point{
		{Key{1, "connect", "", 1}, Before},
		{Key{0, "create2", "/a b:c/#1 x", 12}, After},
		{Key{12, "op(99)", "", 3}, Late},
		{Key{2, "multi", "/", 1}, Pause},
	} {
		if got, err := ParsePoint(p.String()); err != nil || got != p {
			t.Errorf("%s was read as %+v, %v", p, got, err)
		}
	}
	for text, want := range map[string]string{
		"":                              "it must be REQUEST:FAULT",
		"s1 create2 /a #1":              "it must be REQUEST:FAULT",
		"s1 create2 /a #1:never":        `"never" is no fault; there are before,after,expire,move,late,pause`,
		"s1 create2 /a #1:before,after": "must have one fault",
		"s0 create2 /a #1:before":       "names no request; it must be like",
		"7:before":                      "names no request; it must be like",
		"s1 create2 a #1:before":        "names no request; it must be like",
	} {
		if _, err := ParsePoint(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A list of faults is put into order, without duplicates.
func TestParseFaults(t *testing.T) {
	if got, err := ParseFaults("late, after,before,after"); err != nil || JoinFaults(got) != "before,after,late" {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := ParseFaults(""); err == nil {
		t.Error("an empty list has no error")
	}
	for _, f := range Faults() {
		if f.Meaning() == "" {
			t.Errorf("%s has no meaning", f)
		}
	}
}

// The chroot of a run is not part of a path.
func TestWithoutChroot(t *testing.T) {
	for _, tt := range []struct{ path, chroot, want string }{
		{"/a", "", "/a"}, {"/x/a", "/x", "/a"}, {"/x", "/x", "/"}, {"/xy", "/x", "/xy"}, {"/a/x", "/x", "/a/x"}, {"", "/x", ""},
	} {
		if got := withoutChroot(tt.path, tt.chroot); got != tt.want {
			t.Errorf("withoutChroot(%q, %q) = %q, want %q", tt.path, tt.chroot, got, tt.want)
		}
	}
}

// No request, however broken, stops the proxy, and each key can be written and read.
func FuzzKey(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, '/', 'a'})
	f.Add(jute.RequestHeader{Op: jute.OpMulti}.Append(nil))
	f.Fuzz(func(t *testing.T, frame []byte) {
		header, path := tap.ParseRequest(frame)
		key := Request{Session: 1, Op: header.Op.String(), Path: path, Occurrence: 1}.Key()
		if !strings.HasPrefix(path, "/") {
			return // the server rejects it
		}
		if got, err := ParseKey(key.String()); err != nil || got != key {
			t.Errorf("%q was read as %+v, %v", key, got, err)
		}
	})
}
