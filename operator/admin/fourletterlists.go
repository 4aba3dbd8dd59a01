package admin

import (
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"rollcall/operator/clients"
	"rollcall/zk/jute"
)

// cons lists the connections in full.
func (w *FourLetterCommands) cons(p *textWriter, _ *Stats, _ io.Reader) {
	for c := range paced(p.pacing, w.source.Connections()) {
		if p.printf(" %s)\n", connectionDetails(&c)); p.err != nil {
			return
		}
	}
	p.printf("\n")
}

// connectionSummary returns a connection's line in stat, without the closing bracket.
func connectionSummary(c *clients.Connection) string {
	return fmt.Sprintf("/%s[%x](queued=%d,recved=%d,sent=%d", c.RemoteAddr, c.InterestOps(), c.QueuedRequests,
		c.PacketsReceived, c.PacketsSent)
}

// connectionDetails returns a connection's line in cons, without the closing bracket.
func connectionDetails(c *clients.Connection) string {
	if c.Session == 0 {
		return connectionSummary(c)
	}
	var b strings.Builder
	op := "NA"
	if c.ReplyCount > 0 {
		op = c.LastOp.Abbreviation()
	}
	fmt.Fprintf(&b, "%s,sid=0x%x,lop=%s,est=%d,to=%d", connectionSummary(c), uint64(c.Session), op,
		c.EstablishedAt.UnixMilli(), c.Timeout.Milliseconds())
	if c.LastXid >= 0 {
		fmt.Fprintf(&b, ",lcxid=0x%x", c.LastXid)
	}
	fmt.Fprintf(&b, ",lzxid=0x%x,lresp=%d,llat=%d,minlat=%d,avglat=%d,maxlat=%d", uint64(c.LastZxid),
		c.LastReply.Milliseconds(),
		c.LastLatency.Milliseconds(), c.MinLatency.Milliseconds(), c.AvgLatency.Milliseconds(), c.MaxLatency.Milliseconds())
	return b.String()
}

// withLongReplyTurn runs f alone, so that one long reply at a time is held in memory.
func (w *FourLetterCommands) withLongReplyTurn(f func()) {
	w.longReplyTurn <- struct{}{}
	defer func() { <-w.longReplyTurn }()
	f()
}

// dump lists the sessions by expiry time, their ephemeral nodes, and the connections.
func (w *FourLetterCommands) dump(p *textWriter, _ *Stats, _ io.Reader) {
	w.withLongReplyTurn(func() {
		p.printf("SessionTracker dump:\n")
		if expiries, leads := w.source.Expiries(); leads {
			writeExpiryBuckets(p, "Session", pacedPairs(p.pacing, expiries),
				func(id jute.SessionID) { p.printf("\t0x%x\n", uint64(id)) })
		} else {
			p.writeTimeouts(pacedPairs(p.pacing, w.source.Sessions()))
		}
		p.printf("ephemeral nodes dump:\n")
		p.writeEphemerals(w.newPathFilter().filterEphemerals(pacedPairs(p.pacing, w.source.Ephemerals())))
		p.printf("Connections dump:\n")
		writeExpiryBuckets(p, "Connections", expiriesBySecond(paced(p.pacing, w.source.Connections())), func(c dumpedClient) {
			p.printf("\tip: /%s sessionId: 0x%x\n", c.addr, uint64(c.session))
		})
	})
}

type dumpedClient struct {
	addr    string
	session jute.SessionID
}

// expiriesBySecond rounds expiry times up to seconds, so that connections that expire together are listed
// together.
func expiriesBySecond(all iter.Seq[clients.Connection]) iter.Seq2[dumpedClient, time.Time] {
	return func(yield func(dumpedClient, time.Time) bool) {
		for c := range all {
			if !yield(dumpedClient{c.RemoteAddr, c.Session}, c.ExpiresAt.Truncate(time.Second).Add(time.Second)) {
				return
			}
		}
	}
}

// writeExpiryBuckets lists values by expiry time.
func writeExpiryBuckets[T any](p *textWriter, name string, all iter.Seq2[T, time.Time], show func(T)) {
	ends := map[int64][]T{}
	n := 0
	for one, at := range all {
		ends[at.UnixNano()] = append(ends[at.UnixNano()], one)
		n++
	}
	p.printf("%s Sets (%d)/(%d):\n", name, len(ends), n)
	for _, at := range slices.Sorted(maps.Keys(ends)) {
		p.printf("%d expire at %s:\n", len(ends[at]), time.Unix(0, at).UTC().Format(javaDateLayout))
		for _, one := range ends[at] {
			if show(one); p.err != nil {
				return
			}
		}
	}
}

// javaDateLayout is Java's format of dates.
const javaDateLayout = "Mon Jan 02 15:04:05 MST 2006"

// pair is one element of an iter.Seq2.
type pair[K, V any] struct {
	key   K
	value V
}

func collectPairs[K, V any](all iter.Seq2[K, V]) (pairs []pair[K, V]) {
	for key, value := range all {
		pairs = append(pairs, pair[K, V]{key, value})
	}
	return pairs
}

// writeTimeouts lists the sessions with their timeouts, on a member that does not know when they expire.
func (p *textWriter) writeTimeouts(sessions iter.Seq2[jute.SessionID, time.Duration]) {
	all := collectPairs(sessions)
	p.printf("Global Sessions(%d):\n", len(all))
	for _, s := range all {
		if p.printf("0x%x\t%dms\n", uint64(s.key), s.value.Milliseconds()); p.err != nil {
			return
		}
	}
}

func (p *textWriter) writeEphemerals(nodes iter.Seq2[jute.SessionID, string]) {
	all := collectPairs(nodes)
	isFirst := func(i int) bool { return i == 0 || all[i-1].key != all[i].key }
	owners := 0
	for i := range all {
		if isFirst(i) {
			owners++
		}
	}
	p.printf("Sessions with Ephemerals (%d):\n", owners)
	for i, n := range all {
		if isFirst(i) {
			p.printf("0x%x:\n", uint64(n.key))
		}
		if p.printf("\t%s\n", n.value); p.err != nil {
			return
		}
	}
}

// wchs counts watches on nodes. Like ZooKeeper, it omits those on children alone.
func (w *FourLetterCommands) wchs(p *textWriter, s *Stats, _ io.Reader) {
	p.printf("%d connections watching %d paths\nTotal watches:%d\n", s.WatchingConnections, s.WatchedPaths, s.DataWatches)
}

// wchc lists the paths that each session watches.
func (w *FourLetterCommands) wchc(p *textWriter, _ *Stats, _ io.Reader) {
	for id, paths := range w.newPathFilter().filterWatches(pacedPairs(p.pacing, w.source.Watches())) {
		p.printf("0x%x\n", uint64(id))
		for _, path := range paths {
			if p.printf("\t%s\n", path); p.err != nil {
				return
			}
		}
	}
	p.printf("\n")
}

// watchesByPath returns all watches sorted by path.
func watchesByPath(all iter.Seq2[jute.SessionID, []string]) (list []pair[string, jute.SessionID]) {
	for id, paths := range all {
		for _, path := range paths {
			list = append(list, pair[string, jute.SessionID]{path, id})
		}
	}
	slices.SortStableFunc(list, func(a, b pair[string, jute.SessionID]) int { return strings.Compare(a.key, b.key) })
	return list
}

// wchp lists the sessions that watch each path.
func (w *FourLetterCommands) wchp(p *textWriter, _ *Stats, _ io.Reader) {
	w.withLongReplyTurn(func() {
		all := watchesByPath(w.newPathFilter().filterWatches(pacedPairs(p.pacing, w.source.Watches())))
		for i, o := range all {
			if i == 0 || all[i-1].key != o.key {
				p.printf("%s\n", o.key)
			}
			if p.printf("\t0x%x\n", uint64(o.value)); p.err != nil {
				return
			}
		}
		p.printf("\n")
	})
}
