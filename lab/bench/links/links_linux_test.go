package main

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/needs"
)

// Each packet arrives after the delay, in the order in which they were sent, although the sender uses its memory again.
func TestDelayAndOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay = 5 * time.Millisecond
		l := newLink(delay, 1<<20, 100)
		var got []byte
		var took []time.Duration
		begun := time.Now()
		early := func(d time.Duration) { time.Sleep((d + 1) / 2) }
		go l.deliver(func(packet []byte) {
			got = append(got, packet...)
			took = append(took, time.Since(begun))
		}, early)
		var sent []time.Duration
		packet := make([]byte, 1)
		for i, pause := range []time.Duration{0, 0, time.Millisecond, 7 * time.Millisecond, 0, 20 * time.Millisecond} {
			time.Sleep(pause)
			packet[0] = byte(i)
			if !l.send(packet) {
				t.Fatalf("packet %d was lost", i)
			}
			sent = append(sent, time.Since(begun)+delay)
		}
		time.Sleep(time.Second)
		close(l.queue)
		synctest.Wait()
		if want := []byte{0, 1, 2, 3, 4, 5}; !bytes.Equal(got, want) || !slices.Equal(took, sent) {
			t.Errorf("packets %v arrived after %v, want %v after %v", got, took, want, sent)
		}
		if left := l.queued.Load(); left != 0 {
			t.Errorf("%d bytes are under way, want 0", left)
		}
	})
}

// A link that is full loses packets, by its bytes or by their number, and takes packets again when there is room.
func TestFullLink(t *testing.T) {
	for _, tt := range []struct {
		limit   int64
		packets int
	}{{300, 100}, {1 << 20, 3}} {
		synctest.Test(t, func(t *testing.T) {
			l := newLink(time.Millisecond, tt.limit, tt.packets)
			packet := make([]byte, 100)
			for i := range 5 {
				if sent := l.send(packet); sent != (i < 3) {
					t.Errorf("packet %d of 100 bytes was taken: %t, limits %+v", i, sent, tt)
				}
			}
			go l.deliver(func([]byte) {}, time.Sleep)
			time.Sleep(time.Second)
			if !l.send(packet) {
				t.Errorf("an empty link took no packet, limits %+v", tt)
			}
			close(l.queue)
			time.Sleep(time.Second)
		})
	}
}

func TestDestination(t *testing.T) {
	packet := func(to string) []byte {
		p := make([]byte, 20)
		p[0] = 0x45
		a := netip.MustParseAddr(to).As4()
		copy(p[16:], a[:])
		return p
	}
	ipv6 := packet("10.47.0.1")
	ipv6[0] = 0x60
	for _, tt := range []struct {
		packet []byte
		want   int
		ok     bool
	}{
		{packet(address(0).String()), 0, true},
		{packet(address(2).String()), 2, true},
		{packet("10.47.0.0"), -1, false},
		{packet("10.48.0.1"), 0, false},
		{packet("224.0.0.22"), 21, false},
		{ipv6, 0, false},
		{make([]byte, 19), 0, false},
		{nil, 0, false},
	} {
		if i, ok := destination(tt.packet); ok != tt.ok || ok && i != tt.want {
			t.Errorf("%x: %d, %t; want %d, %t", tt.packet, i, ok, tt.want, tt.ok)
		}
	}
}

// Packets between two namespaces take the delay each way.
func TestNamespaces(t *testing.T) {
	needs.Check(t, needs.Nightly, needs.Namespaces)
	const delay = 20 * time.Millisecond
	var devices []*os.File
	var conns []net.PacketConn
	for i := range 2 {
		name := fmt.Sprintf("links-test-%d-%d", os.Getpid(), i)
		if err := ip("netns", "add", name); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := ip("netns", "delete", name); err != nil {
				t.Error(err)
			}
		})
		f, err := openDevice(name, address(i))
		if err != nil {
			t.Fatal(err)
		}
		devices = append(devices, f)
		if err := inNamespace(name, func() error {
			conn, err := net.ListenPacket("udp4", address(i).String()+":4747")
			conns = append(conns, conn)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, len(devices))
	for i, f := range devices {
		go func() { ended <- forward(i, f, connect(i, devices, delay)) }()
	}
	begun := time.Now()
	for i, from := range conns {
		if _, err := from.WriteTo([]byte{byte(i)}, conns[1-i].LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
	for i, conn := range conns {
		buffer := make([]byte, 10)
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		n, from, err := conn.ReadFrom(buffer)
		if took := time.Since(begun); err != nil || n != 1 || buffer[0] != byte(1-i) ||
			from.String() != conns[1-i].LocalAddr().String() || took < delay {
			t.Errorf("%d: %v of %v after %v, %v", i, buffer[:n], from, took, err)
		}
		_ = conn.Close()
	}
	select {
	case err := <-ended:
		t.Error(err)
	default:
	}
}
