package client

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// sockets returns the two ends of a Unix socket.
func sockets(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if a, err = net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr)); err != nil {
		t.Fatal(err)
	}
	if b, err = l.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close(); _ = b.Close() })
	return a, b
}

// The giver keeps the session unless the taker says that it has resumed it.
func TestSendNeedsReply(t *testing.T) {
	for reply, want := range map[string]error{"": io.EOF, "X": ErrProtocol, "R": nil} {
		giver, taker := sockets(t)
		h := testHandover()
		confirmed := make(chan string, 1)
		go func() {
			var head [4]byte
			_, _ = io.ReadFull(taker, head[:])
			_, _ = io.CopyN(io.Discard, taker, int64(binary.BigEndian.Uint32(head[:])))
			_, _ = io.WriteString(taker, reply)
			_ = taker.CloseWrite()
			rest, _ := io.ReadAll(taker)
			confirmed <- string(rest)
		}()
		err := h.Send(t.Context(), giver)
		if !errors.Is(err, want) || (err == nil) != (want == nil) || (h.Password == nil) != (want == nil) {
			t.Errorf("after the reply %q: %v, the password is given: %t", reply, err, h.Password == nil)
		}
		if got := <-confirmed; (got == "C") != (want == nil) || len(got) > 1 {
			t.Errorf("after the reply %q, the taker got %q", reply, got)
		}
	}
}

// A Handover that is given already is not sent.
func TestSendGiven(t *testing.T) {
	giver, taker := sockets(t)
	wantError(t, (&Handover{}).Send(t.Context(), giver), ErrHandoverGiven)
	if text, err := io.ReadAll(taker); err != nil || len(text) > 0 {
		t.Errorf("the taker got %q, %v", text, err)
	}
}

// Nothing is sent to a process, and nothing is taken from it, unless its user is known to be this process's user. The
// ends of datagram sockets do not know each other's user.
func TestOtherUser(t *testing.T) {
	address := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unixgram"}
	taker, err := net.ListenUnixgram("unixgram", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taker.Close() }()
	giver, err := net.DialUnix("unixgram", nil, address)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context()) // it would end an exchange
	cancel()
	_, err = receiveHandover(ended, giver)
	wantError(t, err, errOtherUser)
	h := testHandover()
	wantError(t, h.Send(ended, giver), errOtherUser)
	if h.Password == nil {
		t.Error("the Handover is given")
	}
	last, err := net.DialUnix("unixgram", nil, address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = last.Close() }()
	_, _ = last.Write([]byte("last"))
	got := make([]byte, 16)
	if n, err := taker.Read(got); string(got[:n]) != "last" || err != nil {
		t.Errorf("the taker got %q, %v before the last datagram", got[:n], err)
	}
}

// What is no fresh Handover is not taken.
func TestReceiveRejects(t *testing.T) {
	frame := func(h Handover) []byte {
		text, err := h.encodeFile()
		if err != nil {
			t.Fatal(err)
		}
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
	}
	good, stale := testHandover(), testHandover()
	stale.Boot = "another"
	damaged := frame(good)
	damaged[40] ^= 1
	for name, tt := range map[string]struct {
		sent []byte
		want error
	}{
		"nothing":   {nil, io.EOF},
		"cut off":   {frame(good)[:50], io.ErrUnexpectedEOF},
		"damaged":   {damaged, ErrHandoverDamaged},
		"too long":  {binary.BigEndian.AppendUint32(nil, maxHandoverSize+1), ErrHandoverDamaged},
		"stale":     {frame(stale), ErrHandoverStale},
		"longest":   {binary.BigEndian.AppendUint32(nil, maxHandoverSize), io.EOF},
		"as it was": {frame(good), nil},
	} {
		giver, taker := sockets(t)
		go func() {
			_, _ = giver.Write(tt.sent)
			_ = giver.CloseWrite()
		}()
		h, err := receiveHandover(t.Context(), taker)
		isBad := err == nil && (h.Session != good.Session || !h.received)
		if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) || isBad {
			t.Errorf("%s: %+v, %v, want %v", name, h, err, tt.want)
		}
		if tt.want != nil {
			giver, taker := sockets(t)
			go func() {
				_, _ = giver.Write(tt.sent)
				_ = giver.CloseWrite()
			}()
			_, _, err := TakeOver(t.Context(), taker, "127.0.0.1:1", Config{})
			wantError(t, err, tt.want)
		}
	}
}

// The taker does not continue unless the giver consents.
func TestConfirmNeedsConsent(t *testing.T) {
	for reply, want := range map[string]error{"": ErrHandoverWithdrawn, "X": ErrHandoverWithdrawn, "C": nil} {
		giver, taker := sockets(t)
		go func() {
			var resumed [1]byte
			_, _ = io.ReadFull(giver, resumed[:])
			_, _ = io.WriteString(giver, reply)
			_ = giver.Close()
		}()
		if err := confirmResumed(t.Context(), taker); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("after %q: %v", reply, err)
		}
	}
}

// An exchange ends with its context, and the error is the context's.
func TestExchangeEndsWithContext(t *testing.T) {
	_, taker := sockets(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := receiveHandover(ctx, taker)
	wantError(t, err, context.DeadlineExceeded)
}
