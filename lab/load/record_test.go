package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/lab/judge"
	"rollcall/lab/result"
	"rollcall/zk/jute"
)

// Of the replies to one kind of request of one member, the last one of each part of the timeout is kept.
func TestAnswersAreKept(t *testing.T) {
	r := newRecorder(&Config{})
	v := &sessionLife{timeout: 1600} // parts of 100 ms
	answer := func(ask judge.Ask, member string, sent result.Millis) judge.Answer {
		return judge.Answer{Ask: ask, Member: member, Sent: sent, At: sent + 1}
	}
	var want []judge.Answer
	for _, tt := range []struct {
		judge.Answer
		replaces int // the place of the answer in the list that it replaces; -1: none
	}{
		{answer(judge.Ping, "1", 10), -1},
		{answer(judge.Ping, "1", 99), 0},
		{answer(judge.Query, "1", 99), -1},
		{answer(judge.Ping, "2", 99), -1},
		{answer(judge.Ping, "1", 98), 0},
		{answer(judge.Ping, "1", 100), -1},
		{answer(judge.Sync, "1", 150), -1},
		{answer(judge.Query, "1", 99), 1},
		{answer(judge.Ping, "1", 97), -1}, // it is too far back in the list
	} {
		r.noteAnswer(v, tt.Answer)
		if tt.replaces < 0 {
			want = append(want, tt.Answer)
		} else {
			want[tt.replaces] = tt.Answer
		}
		if !slices.Equal(v.rec.Answers, want) {
			t.Fatalf("after %+v:\n%+v\nwant\n%+v", tt, v.rec.Answers, want)
		}
	}
	for i := range judge.MaxAnswers + 1 {
		r.noteAnswer(v, answer(judge.Ping, "1", result.Millis(1000+100*i)))
	}
	if n := len(v.rec.Answers); n != judge.MaxAnswers || v.rec.Answers[0].Sent != 1100 ||
		v.rec.Answers[n-1].Sent != 1000+100*judge.MaxAnswers {
		t.Errorf("%d answers from %+v on", n, v.rec.Answers[0])
	}
}

// The latest states of a session are kept, and its end is the first one.
func TestStatesAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(&Config{Servers: []result.Member{{Name: "2", Clients: "two:1"}}})
		time.Sleep(time.Second)
		for _, tt := range []struct {
			state   client.State
			how     judge.How
			expired int
		}{{client.Expired, judge.Expired, 1}, {client.AuthFailed, judge.Abandoned, 1}} {
			v := &sessionLife{timeout: 1600}
			for i := range judge.MaxStates + 1 {
				r.stateChanged(v, client.StateChange{State: client.Connected, Server: "two:1", At: time.Now()}, result.Millis(i))
			}
			r.stateChanged(v, client.StateChange{State: tt.state, At: time.Now().Add(-100 * time.Millisecond)}, 0)
			r.stateChanged(v, client.StateChange{State: client.Expired, At: time.Now()}, 0)
			n := len(v.rec.States)
			if first := v.rec.States[0]; n != judge.MaxStates || !first.On || first.Member != "2" || first.At != 1000 ||
				v.rec.States[n-2].Name != tt.state.String() {
				t.Errorf("%d states from %+v on: %+v", n, first, v.rec.States[n-2:])
			}
			if v.rec.Ended != tt.how || v.rec.EndedAt != 900 || r.expired != tt.expired {
				t.Errorf("%v: ended %v at %v; %d have expired", tt.state, v.rec.Ended, v.rec.EndedAt, r.expired)
			}
			if a := v.rec.Answers; len(a) != 1 || a[0] != (judge.Answer{Sent: judge.MaxStates, At: 1000, Ask: judge.Connect, Member: "2"}) {
				t.Errorf("the handshakes are %+v", a)
			}
		}
		v := &sessionLife{timeout: 1600}
		r.stateChanged(v, client.StateChange{State: client.Connected, At: time.Now()}, 1001)
		if len(v.rec.Answers) > 0 {
			t.Errorf("the handshake of a later connection counts: %+v", v.rec.Answers)
		}
	})
}

// Everything that clients do is counted, and kept or counted as dropped.
func TestLoadIsCounted(t *testing.T) {
	r := newRecorder(&Config{})
	k := &judge.Key{}
	for i, outcome := range []judge.Outcome{judge.Acked, judge.Unknown, judge.Failed, judge.Acked} {
		r.noteWrite(k, judge.Put{Session: "0x1", Value: int64(i + 1), Outcome: outcome})
	}
	if k.Acked != 2 || k.Unknown != 1 || k.Last.Value != 4 || len(k.Puts) != 4 {
		t.Errorf("%+v", k)
	}
	for session, want := range map[string]int64{"": 4, "0x1": 4, "0x2": 0} {
		if got := r.lastValue(k, session); got != want {
			t.Errorf("the last value of %q is %d, want %d", session, got, want)
		}
	}
	r.noteCreate(judge.Create{})
	r.noteRead(judge.Read{})
	r.noteHold(judge.Hold{})
	r.noteStep(judge.Step{Kind: judge.Event})
	r.noteStep(judge.Step{Kind: judge.Seen})
	r.noteSession(&sessionLife{}, "0x1", 1)
	e := r.finish([]*judge.Key{k})
	if want := (result.Load{Sessions: 1, Writes: 5, Reads: 1, Events: 1, Locks: 1}); e.Load != want || len(e.Watches) != 2 ||
		len(e.Keys) != 1 || len(e.Dropped) > 0 {
		t.Errorf("%+v, want %+v; %d steps, dropped %v", e.Load, want, len(e.Watches), e.Dropped)
	}
	r.evidence.Holds = make([]judge.Hold, maxHolds)
	r.puts = maxPuts
	r.noteHold(judge.Hold{})
	r.noteWrite(k, judge.Put{})
	if len(e.Holds) != maxHolds || e.Dropped[judge.KindHolds] != 1 || e.Dropped[judge.KindWrites] != 1 || len(k.Puts) != 4 || !r.mayCreate() {
		t.Errorf("at the limits: %d holds, dropped %v", len(e.Holds), e.Dropped)
	}
	r.evidence.Creates = make([]judge.Create, maxCreates)
	if r.mayCreate() {
		t.Error("a create is sent that cannot be kept")
	}
}

// A node of a session that has ended is left until an observer has seen its removal. Nodes of abandoned sessions are not
// waited for.
func TestLeftovers(t *testing.T) {
	for _, how := range []judge.How{judge.Closed, judge.Expired, judge.Abandoned} {
		r := newRecorder(&Config{})
		v := &sessionLife{rec: judge.Session{ID: "0x1"}}
		r.noteOpening(v)
		r.noteNodeCreated(v, sessionsParent+"/n")
		if r.hasLeftovers() {
			t.Errorf("%v: a node of a session that lives is left", how)
		}
		r.noteEnd(v, how)
		r.noteEnd(v, judge.Lives) // once is enough
		if got := r.hasLeftovers(); got != (how != judge.Abandoned) {
			t.Errorf("%v: left: %t", how, got)
		}
		seen := map[string]bool{}
		r.noteList(seen, map[string]bool{"n": true, "other": true}, 1)
		r.noteList(seen, nil, 2)
		if r.hasLeftovers() || len(r.evidence.Sessions) != 1 {
			t.Errorf("%v: a node that has gone is left, or of the sessions %d are kept", how, len(r.evidence.Sessions))
		}
	}
}

// A silent client whose session is rejected, or whose node cannot be created, closes its connection. The others stay
// open.
func TestSilenceFails(t *testing.T) {
	granted := jute.ConnectResponse{TimeOut: 1000, SessionID: 7, Passwd: make([]byte, 16)}.Append(nil)
	for _, tt := range []struct {
		replies [][]byte
		want    string // in the error; "": none
	}{
		{[][]byte{granted, jute.ReplyHeader{Xid: 1}.Append(nil)}, ""},
		{[][]byte{jute.ConnectResponse{Passwd: make([]byte, 16)}.Append(nil)}, "0 of 2 silent clients: member 1: the server refused the session"},
		{[][]byte{granted, jute.ReplyHeader{Xid: 1, Err: jute.NoNode}.Append(nil)}, "0 of 2 silent clients: member 1: create of /sessions/silent-1"},
		{[][]byte{granted}, "0 of 2 silent clients: member 1: EOF"},
		{nil, "0 of 2 silent clients: member 1: EOF"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ends := make(chan error, 2) // of connections that the server keeps open
			l := &Load{cfg: Config{Servers: []result.Member{{Name: "0"}, {Name: "1"}}, Timeout: time.Second}}
			l.recorder = newRecorder(&l.cfg)
			l.cfg.DialConn = func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go func() {
					defer theirs.Close()
					for _, reply := range tt.replies {
						if _, err := jute.ReadFrame(theirs, nil, 1<<20); err != nil {
							return
						}
						_, _ = theirs.Write(jute.AppendBytes(nil, reply))
					}
					if strings.Contains(tt.want, "EOF") {
						_, _ = jute.ReadFrame(theirs, nil, 1<<20)
						return
					}
					_, err := theirs.Read(make([]byte, 1))
					ends <- err
				}()
				return ours, nil
			}
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			err := l.Silence(ctx, 2)
			time.Sleep(2 * time.Minute) // the limit of the requests is none of the connection
			synctest.Wait()
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) || len(l.silentConns) > 0 {
					t.Errorf("%v, want %s; %d connections stay", err, tt.want, len(l.silentConns))
				}
				if !strings.Contains(tt.want, "EOF") && (len(ends) != 1 || !errors.Is(<-ends, io.EOF)) {
					t.Errorf("%s: the connection stays open", tt.want)
				}
				return
			}
			sessions := l.recorder.evidence.Sessions
			if err != nil || len(l.silentConns) != 2 || len(ends) > 0 || len(sessions) != 2 || l.recorder.evidence.Load.Sessions != 2 {
				t.Fatalf("%v, %d connections, %d have ended, sessions %+v", err, len(l.silentConns), len(ends), sessions)
			}
			for i, s := range sessions {
				name := fmt.Sprintf("silent-%d", i+1)
				if s.ID != "0x7" || s.Client != name || s.Timeout != 1000 || s.Ended != judge.Abandoned || s.Node == nil || s.Node.Path != sessionsParent+"/"+name ||
					len(s.Answers) != 1 || s.Answers[0].Ask != judge.Connect || s.Answers[0].Member != l.cfg.Servers[(i+1)%2].Name {
					t.Errorf("%+v, %+v", s, s.Node)
				}
			}
			l.closeSilent()
			synctest.Wait()
			if len(ends) != 2 {
				t.Errorf("%d of 2 connections are closed at the end", len(ends))
			}
		})
	}
	l := &Load{silentConns: make([]net.Conn, maxSilent), cfg: Config{Servers: []result.Member{{}}}}
	if err := l.Silence(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "a load has at most") {
		t.Errorf("one too many: %v", err)
	}
}

// A silent client whose connection breaks opens a session at the next server, with another node.
func TestSilenceTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replies := [][]byte{jute.ConnectResponse{TimeOut: 1000, SessionID: 7, Passwd: make([]byte, 16)}.Append(nil), jute.ReplyHeader{Xid: 1}.Append(nil)}
		l := &Load{cfg: Config{Servers: []result.Member{{Name: "0"}, {Name: "1"}}, Timeout: time.Second}}
		l.recorder = newRecorder(&l.cfg)
		for broken := range 4 { // it has no connection, no session, no reply about its node, or no reply and no end
			tries := 0
			l.cfg.DialConn = func(context.Context, string, string) (net.Conn, error) {
				if tries++; tries == 1 && broken == 0 {
					return nil, io.ErrClosedPipe
				}
				answered := replies
				if tries == 1 {
					answered = replies[:(broken-1)%2]
				}
				ours, theirs := net.Pipe()
				go func() {
					for _, reply := range answered {
						_, _ = jute.ReadFrame(theirs, nil, 1<<20)
						_, _ = theirs.Write(jute.AppendBytes(nil, reply))
					}
					if len(answered) < len(replies) && broken < 3 {
						_ = theirs.Close()
					}
				}()
				return ours, nil
			}
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			if err := l.Silence(ctx, 1); err != nil || tries != 2 {
				t.Errorf("case %d: %v, %d tries", broken, err, tries)
			}
			stop()
		}
		l.closeSilent()
		for i, s := range l.recorder.evidence.Sessions {
			if want := fmt.Sprintf("silent-%d", 2*i+2); s.Client != want || s.Answers[0].Member != "0" {
				t.Errorf("session %d is %+v, want %s", i, s, want)
			}
		}
		if n := len(l.recorder.evidence.Sessions); n != 4 {
			t.Errorf("%d sessions, want 4", n)
		}
	})
}
