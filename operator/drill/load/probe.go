package load

import (
	"context"
	"errors"
	"sync"

	"rollcall/client"
	"rollcall/operator/drill/judge"
)

// keyWriter writes to one key, one value after the other, over all lives of its seat.
type keyWriter struct {
	key  *judge.Key
	next int64
}

// write writes the next value. It reports whether the write was answered.
func (w *keyWriter) write(v *life) bool {
	w.next++
	p := judge.Put{Session: v.id, Value: w.next}
	answer, err := v.call(judge.Write, func(ctx context.Context) error {
		stat, err := v.c.Set(ctx, w.key.Path, formatValue(p.Value), client.AnyVersion)
		p.Version = stat.Version
		return err
	})
	p.Sent, p.At, p.Outcome = answer.Sent, answer.At, outcome(err)
	if errors.Is(err, client.ErrSuspended) {
		return false // it was not sent
	}
	v.seat.l.rec.put(w.key, p)
	return answered(err)
}

// readKey reads a key and keeps the Read. It reports whether the read was answered.
func (v *life) readKey(path string, floor int64, synced bool) bool {
	read := judge.Read{Session: v.id, Path: path, Floor: floor, Synced: synced}
	answer, err := v.call(judge.Query, func(ctx context.Context) error {
		data, stat, err := v.c.Get(ctx, path)
		read.Zxid = v.seat.gate.zxid.Load()
		read.Value, read.Version, read.Mzxid = parseValue(data), stat.Version, int64(stat.Changed)
		return err
	})
	read.Sent, read.At, read.Member = answer.Sent, answer.At, answer.Member
	if err == nil {
		v.seat.l.rec.read(read)
	}
	return answered(err)
}

// startProber starts a client that writes and reads its own key all the time, and measures the gaps. member is the one
// that it is pinned to, or "".
func (l *Load) startProber(s *seat, member string, key *judge.Key) {
	w := &keyWriter{key: key}
	l.start(s, func(v *life) {
		var both sync.WaitGroup
		both.Go(func() {
			for ; !v.over(); v.pause(l.cfg.Interval) {
				l.rec.meter(member, string(judge.Write), w.write(v))
			}
		})
		both.Go(func() {
			for ; !v.over(); v.pause(l.cfg.Interval) {
				l.rec.meter(member, string(judge.Query), v.readKey(key.Path, l.rec.lastValue(key, v.id), false))
			}
		})
		both.Wait()
	})
}
