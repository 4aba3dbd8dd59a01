package hostile

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/integration/wire"
	"rollcall/lab/process"
	"rollcall/zk/jute"
)

const (
	longSessions    = 3_000            // on the member that is asked
	longSessionTime = 20 * time.Second // their timeout, the longest that there is
	longOpeners     = 16               // sessions opened at a time
	longReaders     = 16               // callers without credentials that ask for long answers, one after the other
	longPings       = longSessionTime / 4
)

// longAnswers are requests that any user on a member's machine may send. Their replies grow with the number of sessions.
var longAnswers = []string{"/commands/connections", "/commands/dump", "/metrics", "/commands/stats"}

// Long replies about thousands of sessions, to callers without credentials, give way to clients, also after all members
// have started again.
func TestLongAnswers(t *testing.T) {
	needs.Check(t, needs.Nightly)
	besiege(t, expense{name: "long answers", begin: manySessions, run: readLong, least: 10, again: true})
}

// manySessions opens sessions on the first member, which live until the test ends or the member does.
func manySessions(t *testing.T, b *besieged) {
	t.Helper()
	conns := make([]*wire.Conn, longSessions)
	var opening sync.WaitGroup
	for first := range longOpeners {
		opening.Go(func() {
			for i := first; i < longSessions; i += longOpeners {
				sock, err := dialFrom(t.Context(), b.Members[0], expenseFrom)
				if err != nil {
					t.Error(err)
					return
				}
				conns[i] = wire.New(sock)
				if _, err := conns[i].Open(longSessionTime); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	opening.Wait()
	if t.Failed() {
		t.FailNow()
	}
	ctx, stop := context.WithCancel(t.Context())
	var pinging sync.WaitGroup
	pinging.Go(func() {
		for pause(ctx, longPings); ctx.Err() == nil; pause(ctx, longPings) {
			for _, c := range conns {
				_ = c.Send(jute.XidPing, jute.OpPing, nil) // fails once the member has been killed
			}
		}
	})
	t.Cleanup(func() {
		stop()
		pinging.Wait()
		for _, c := range conns {
			_ = c.Close()
		}
	})
}

// readLong: callers request long replies again and again, and read them.
func readLong(ctx context.Context, b *besieged) {
	addr, err := b.Members[0].HTTP()
	if err != nil {
		return // besieged.done says that there was no attack
	}
	client := http.Client{Timeout: process.Patience, Transport: &http.Transport{MaxIdleConnsPerHost: longReaders}}
	defer client.CloseIdleConnections()
	var readers sync.WaitGroup
	for i := range longReaders {
		readers.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+longAnswers[n%len(longAnswers)], nil)
				if err != nil {
					return
				}
				answer, err := client.Do(r)
				if err != nil {
					pause(ctx, unreadPause)
					continue
				}
				if n, err := io.Copy(io.Discard, answer.Body); err == nil && n > 0 && answer.StatusCode == http.StatusOK {
					b.done.Add(1)
				}
				_ = answer.Body.Close()
			}
		})
	}
	readers.Wait()
}
