package wire

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func admitFrom(d *SourceLimiter, log *slog.Logger, ip string) error {
	return d.Admit(log, &net.TCPAddr{IP: net.ParseIP(ip), Port: 1})
}

// A port for operators admits a burst of each address, logs once that more came, and always admits this machine.
func TestHandshakesOfOperators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		d, log := NewSourceLimiter(), slog.New(slog.NewTextHandler(&text, nil))
		for range sourceRate.burst {
			if err := admitFrom(d, log, "10.0.0.1"); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			if admitFrom(d, log, "10.0.0.1") == nil {
				t.Error("one more is admitted")
			}
		}
		for range 10 * sourceRate.burst {
			for _, local := range []string{"127.0.0.1", "::1", "::ffff:127.0.0.1"} {
				if err := admitFrom(d, log, local); err != nil {
					t.Fatalf("%s: %v", local, err)
				}
			}
		}
		if n := strings.Count(text.String(), "10.0.0.1:1"); n != 1 {
			t.Errorf("%d lines: %s", n, &text)
		}
	})
}

// Strangers who begin handshakes without pause, from many addresses, lock no operator and no probe out.
func TestStrangersLockOutNoOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, log := NewSourceLimiter(), slog.New(slog.DiscardHandler)
		for i := range 60 * 100 { // a minute, in steps of 10 ms
			for stranger := range 5 {
				_ = admitFrom(d, log, fmt.Sprintf("10.9.9.%d", stranger+1))
			}
			if i%1000 == 503 { // each 10 s
				if err := admitFrom(d, log, "10.0.0.1"); err != nil {
					t.Errorf("a probe at %d s: %v", i/100, err)
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}
