package session

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"time"
)

// While a Session is connected to a read-only server, it queries the other servers in turn for one that can write. The
// pause before each query doubles from minSearchPause to maxSearchPause, as in ZooKeeper's Java client. A query lasts
// for searchTimeout at most.
const (
	minSearchPause = 100 * time.Millisecond
	maxSearchPause = time.Minute
	searchTimeout  = time.Second
)

// errWriterFound is the reason for leaving a read-only server.
var errWriterFound = errors.New("client: another server can write")

// writerSearch is a search for a server that can write. Its goroutine ends when it has found one, or when stop is
// called.
type writerSearch struct {
	cancel context.CancelFunc
	ended  chan struct{}
	found  candidate // found and ok are set when ended is closed
	ok     bool
}

// startSearch starts the search for a server other than l's.
func (r *reader) startSearch(l *link) *writerSearch {
	ctx, cancel := context.WithCancel(r.c.ctx)
	s := &writerSearch{cancel: cancel, ended: make(chan struct{})}
	r.c.mu.Lock()
	others := slices.DeleteFunc(slices.Clone(r.c.servers.all), func(other candidate) bool { return other == l.server })
	r.c.mu.Unlock()
	go func() {
		defer close(s.ended)
		if s.found, s.ok = findWriter(ctx, r.dial, others); s.ok {
			r.c.mu.Lock()
			l.abort(errWriterFound)
			r.c.mu.Unlock()
		}
	}()
	return s
}

// stop ends the search, and returns the server that it has found.
func (s *writerSearch) stop() (found candidate, ok bool) {
	s.cancel()
	<-s.ended
	return s.found, s.ok
}

// findWriter returns the first of servers that can write. ok is false if ctx ends before, or if there are no servers.
func findWriter(ctx context.Context, dial dialFunc, servers []candidate) (found candidate, ok bool) {
	pause := minSearchPause
	for i := 0; len(servers) > 0; i++ {
		select {
		case <-time.After(pause/2 + rand.N(pause/2+1)): // so that many clients do not query together
		case <-ctx.Done():
			return candidate{}, false
		}
		if server := servers[i%len(servers)]; canWrite(ctx, dial, server.addr) {
			return server, true
		}
		pause = min(2*pause, maxSearchPause)
	}
	return candidate{}, false
}

// canWrite sends ZooKeeper's four-letter command isro. A server that can write replies rw.
func canWrite(ctx context.Context, dial dialFunc, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, searchTimeout)
	defer cancel()
	conn, err := dial(ctx, addr)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := conn.Write([]byte("isro")); err != nil {
		return false
	}
	var reply [2]byte
	_, err = io.ReadFull(conn, reply[:])
	return err == nil && string(reply[:]) == "rw"
}
