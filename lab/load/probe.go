package load

import (
	"context"
	"errors"
	"sync"

	"rollcall/client"
	"rollcall/lab/judge"
)

// keyWriter writes to one key, one value after the other, over all lives of its seat.
type keyWriter struct {
	key  *judge.Key
	next int64
}

// writeNext writes the next value. It reports whether the write was answered.
func (w *keyWriter) writeNext(v *sessionLife) bool {
	w.next++
	p := judge.Put{Session: v.id, Value: w.next}
	answer, err := v.sendRequest(judge.Write, func(ctx context.Context) error {
		stat, err := v.client.Set(ctx, w.key.Path, formatValue(p.Value), client.AnyVersion)
		p.Version = stat.Version
		return err
	})
	p.Sent, p.At, p.Outcome = answer.Sent, answer.At, outcomeOf(err)
	if errors.Is(err, client.ErrSuspended) {
		return false // it was not sent
	}
	v.slot.load.recorder.noteWrite(w.key, p)
	return hasReply(err)
}

// readKey reads a key and keeps the Read. It reports whether the read was answered.
func (v *sessionLife) readKey(path string, floor int64, synced bool) bool {
	read := judge.Read{Session: v.id, Path: path, Floor: floor, Synced: synced}
	answer, err := v.sendRequest(judge.Query, func(ctx context.Context) error {
		data, stat, err := v.client.Get(ctx, path)
		read.Zxid = v.slot.gate.lastZxid.Load()
		read.Value, read.Version, read.Mzxid = parseValue(data), stat.Version, int64(stat.Changed)
		return err
	})
	read.Sent, read.At, read.Member = answer.Sent, answer.At, answer.Member
	if err == nil {
		v.slot.load.recorder.noteRead(read)
	}
	return hasReply(err)
}

// startProber starts a client that writes and reads its own key all the time, and measures the gaps. member is the one
// that it is pinned to, or "".
func (l *Load) startProber(s *clientSlot, member string, key *judge.Key) {
	w := &keyWriter{key: key}
	l.startClient(s, func(v *sessionLife) {
		var both sync.WaitGroup
		both.Go(func() {
			for ; !v.isOver(); v.pauseFor(l.cfg.Interval) {
				l.recorder.noteProbe(member, string(judge.Write), w.writeNext(v))
			}
		})
		both.Go(func() {
			for ; !v.isOver(); v.pauseFor(l.cfg.Interval) {
				l.recorder.noteProbe(member, string(judge.Query), v.readKey(key.Path, l.recorder.lastValue(key, v.id), false))
			}
		})
		both.Wait()
	})
}
