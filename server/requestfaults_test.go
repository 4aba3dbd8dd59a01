package server

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/operator/logs/logtest"
	"rollcall/zk/jute"
)

// A request that ends its connection is logged with the reason at the usual level, once in a minute for each reason,
// with the number of those that were left out. A client that closes its session is not.
func TestRequestFaultsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Buffer
		w := newWorld(t, false, func(cfg *Config) { cfg.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		tooLong := func() {
			c := w.connect()
			c.write([]byte{0, 0x10, 0, 0}) // a length above jute.maxbuffer
			c.expectClosed()
			synctest.Wait()
		}
		expect := func(lines int, text string) {
			t.Helper()
			if got := log.String(); strings.Count(got, "a client's request ended its connection") != lines || !strings.Contains(got, text) {
				t.Errorf("logged\n%swant %d lines, the last with %s", got, lines, text)
			}
		}
		c := w.connect()
		c.must(jute.OpCloseSession)
		c.expectClosed()
		synctest.Wait()
		expect(0, "")
		for range 3 {
			tooLong()
		}
		expect(1, `reason="it sent what is no request, or a request longer than jute.maxbuffer" unlogged=0`)
		c = w.connect()
		c.request(jute.Op(77))
		c.expect(c.xid, jute.Unimplemented)
		c.expectClosed()
		synctest.Wait()
		expect(2, "it asked for an operation that is not served")
		time.Sleep(faultLogInterval)
		tooLong()
		expect(3, "unlogged=2")
	})
}
