package client

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"rollcall/client/internal/fakezk"
)

// testHandover returns one that is fresh.
func testHandover() Handover {
	boot, now := machineClock()
	return Handover{
		Session: 0x7fff_ffff_ffff_fffe, Password: []byte{1, 2, 3, 0xff}, LastZxid: 1 << 40, Timeout: 10 * time.Second,
		Chroot: "/app", Held: []HeldRight{{Path: "/lock/_c_x-lock-0000000001", Token: 7, ACLVersion: 2}},
		Boot: boot, Expires: now + 10*time.Second,
	}
}

// written writes a Handover to a file and returns its path.
func written(t *testing.T, h Handover) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "session")
	if err := h.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("the error is %v, and must be %v", err, want)
	}
}

// A file gives back what was written, and replaces an older one.
func TestHandoverFile(t *testing.T) {
	path := written(t, Handover{Password: []byte("old")})
	want := testHandover()
	h := want
	if err := h.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	got, err := ReadHandover(path)
	if !got.received {
		t.Error("the Handover does not know that it came by a file")
	}
	if got.received = false; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v; want %+v", got, err, want)
	}
	wantError(t, h.WriteFile(path), ErrHandoverGiven)
	if names, err := os.ReadDir(filepath.Dir(path)); err != nil || len(names) > 0 {
		t.Errorf("files are left: %v, %v", names, err)
	}
	_, err = ReadHandover(path)
	wantError(t, err, fs.ErrNotExist)
	if strings.Contains(err.Error(), "taken") {
		t.Errorf("the error names a file of our own: %v", err)
	}
}

// A stale file is rejected, and removed.
func TestHandoverStale(t *testing.T) {
	_, now := machineClock()
	for name, change := range map[string]func(*Handover){
		"expired":      func(h *Handover) { h.Expires = now - 1 },
		"other boot":   func(h *Handover) { h.Boot = "another" },
		"clock behind": func(h *Handover) { h.Expires += time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			h := testHandover()
			change(&h)
			path := written(t, h)
			_, err := ReadHandover(path)
			wantError(t, err, ErrHandoverStale)
			_, err = ReadHandover(path)
			wantError(t, err, fs.ErrNotExist)
		})
	}
}

// Every damage of a file is noticed.
func TestHandoverDamaged(t *testing.T) {
	h := testHandover()
	text, err := h.encodeFile()
	if err != nil {
		t.Fatal(err)
	}
	damaged := [][]byte{nil, text[:len(text)/2], bytes.Repeat([]byte("x"), maxHandoverSize+1)}
	for i := range len(text) - 1 { // the last byte is a newline that may be missing
		bad := bytes.Clone(text)
		bad[i] ^= 1
		damaged = append(damaged, bad)
	}
	for _, bad := range damaged {
		if _, err := decodeHandover(bad); !errors.Is(err, ErrHandoverDamaged) {
			t.Errorf("%.300q: %v", bad, err)
		}
	}
	path := written(t, h)
	if err := os.WriteFile(path, damaged[2], 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = ReadHandover(path)
	wantError(t, err, ErrHandoverDamaged)
}

// A file that others can read, a link, and a Handover that is too long are rejected.
func TestHandoverFileRejected(t *testing.T) {
	path := written(t, testHandover())
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadHandover(path); err == nil || !strings.Contains(err.Error(), "0600") {
		t.Errorf("mode 0640: %v", err)
	}
	target := written(t, testHandover())
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadHandover(path); err == nil || !strings.Contains(err.Error(), "0600") {
		t.Errorf("a link: %v", err)
	}
	long := testHandover()
	long.Held[0].Path = "/" + strings.Repeat("x", maxHandoverSize)
	if err := long.WriteFile(path); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("a long one: %v", err)
	}
	given := Handover{}
	_, err := Dial(t.Context(), "127.0.0.1:1", Config{Resume: &given})
	wantError(t, err, ErrHandoverGiven)
}

func FuzzDecodeHandover(f *testing.F) {
	h := testHandover()
	text, err := h.encodeFile()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(handoverFormat + " \n{}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, err := decodeHandover(text)
		if err != nil {
			wantError(t, err, ErrHandoverDamaged)
			return
		}
		_, _ = h.encodeFile() // must not panic
	})
}

// A successor keeps the session's timeout, whatever its Config has.
func TestHandoverKeepsTimeout(t *testing.T) {
	const timeout = 10 * time.Second
	for _, other := range []time.Duration{time.Second, time.Minute} {
		bubble(t, Config{Timeout: timeout}, func(t *testing.T, s *fakezk.Server, c *Client) {
			h, err := c.HandOver(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, got := dialFake(t, s, Config{Timeout: other, Resume: &h}).Session()
			if got != timeout || h.Timeout != timeout {
				t.Errorf("with %v, the timeout is %v, and %v in the Handover; want %v", other, got, h.Timeout, timeout)
			}
		})
	}
}
