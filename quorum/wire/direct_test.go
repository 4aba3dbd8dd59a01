package wire

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// leased are Releases of a leader while some servers may have leases for reads.
type leased struct {
	allReleased
	servers []raft.ServerID
	closed  bool // nothing may be released yet
	told    []uint64
}

func (l *leased) NoteTold(term, commit, majority uint64) {
	l.told = append(l.told, term, commit, majority)
}

func (l *leased) MayHaveLease(uint64) ([]raft.ServerID, bool) { return l.servers, !l.closed }

// of returns the direct voters of servers that need not hold the entries.
func of(ids ...uint32) (voters []directVoter) {
	for _, id := range ids {
		voters = append(voters, directVoter{named(id), false})
	}
	return voters
}

// A leader names the members from which a follower with waiting clients must hear, and the members that must report to
// it, under all of the conditions of its word.
func TestDirectEarlyCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		three, _ := leaderless(t)
		five, _ := leaderlessOf(t, server(1, "m1:1"), server(2, "m2:1"), server(3, "m3:1"), server(4, "m4:1"), server(5, "m5:1"),
			Peer{ID: 6, DiskID: testDisk(6), Addr: "m6:1", Observer: true})
		term := three.CurrentTerm()
		request := func(prevTerm uint64) *raft.AppendEntriesRequest {
			return &raft.AppendEntriesRequest{Term: term, PrevLogEntry: 9, PrevLogTerm: prevTerm}
		}
		third := leased{servers: []raft.ServerID{named(3)}}
		holder := []directVoter{{named(3), true}}
		for _, tt := range []struct {
			name    string
			r       *raft.Raft
			to      uint32
			req     *raft.AppendEntriesRequest
			waiting []uint32
			leases  leased
			durable uint64 // 0: all
			changes bool   // the configuration is not committed
			self    uint32 // 0: 1
			want    *directPart
		}{
			{name: "no leases", r: three, to: 2, req: request(term), waiting: []uint32{2}},
			{
				name: "the third may have a lease", r: three, to: 2, req: request(term), waiting: []uint32{2, 1},
				leases: leased{servers: []raft.ServerID{named(3), named(2)}}, want: &directPart{index: 9, voters: holder},
			},
			{
				name: "the third hears of it", r: three, to: 3, req: request(term), waiting: []uint32{2}, leases: third,
				want: &directPart{tell: []raft.ServerID{named(2)}},
			},
			{
				name: "the third has no lease", r: three, to: 3, req: request(term), waiting: []uint32{2},
				leases: leased{servers: []raft.ServerID{named(2)}}, want: &directPart{},
			},
			{
				name: "only its own disk", r: three, to: 2, req: request(term), waiting: []uint32{2}, leases: third, durable: 8,
				want: &directPart{index: 8, voters: holder},
			},
			{name: "nobody's clients wait", r: three, to: 2, req: request(term), leases: third, want: &directPart{}},
			{name: "the leader's clients wait", r: three, to: 2, req: request(term), waiting: []uint32{1}, leases: third, want: &directPart{}},
			{
				name: "nothing may be released", r: three, to: 2, req: request(term), waiting: []uint32{2},
				leases: leased{servers: []raft.ServerID{named(3)}, closed: true},
			},
			{name: "an entry of an earlier term", r: three, to: 2, req: request(term - 1), waiting: []uint32{2}, leases: third},
			{name: "a configuration that is not committed", r: five, to: 2, req: request(term), waiting: []uint32{2}, changes: true},
			{name: "five", r: five, to: 2, req: request(term), waiting: []uint32{2}, want: &directPart{index: 9, copies: 1, voters: of(3, 4, 5)}},
			{
				name: "another one of five", r: five, to: 3, req: request(term), waiting: []uint32{2, 5, 1},
				want: &directPart{copies: 1, tell: []raft.ServerID{named(2), named(5)}},
			},
			{
				name: "five, and one may have a lease", r: five, to: 2, req: request(term), waiting: []uint32{2},
				leases: leased{servers: []raft.ServerID{named(4)}},
				want:   &directPart{index: 9, copies: 1, voters: []directVoter{{named(3), false}, {named(4), true}, {named(5), false}}},
			},
			{name: "an observer", r: five, to: 6, req: request(term), waiting: []uint32{6}},
			{name: "clients of an observer", r: five, to: 2, req: request(term), waiting: []uint32{6}, want: &directPart{copies: 1}},
			{name: "a leader without a vote", r: five, to: 2, req: request(term), waiting: []uint32{2}, self: 6},
		} {
			leases := tt.leases
			words := directEarlyCommits{&Config{
				Raft: func() *raft.Raft { return tt.r }, LocalServer: server(max(1, tt.self), "m1:1"), Releases: &leases,
				ConfigurationCommitted: func() bool { return !tt.changes },
				AwaitingCommit:         func() []uint32 { return tt.waiting },
			}}
			words.cfg.Durability = fixedDurability{durable: func(index uint64) uint64 {
				if tt.durable > 0 {
					return min(index, tt.durable)
				}
				return index
			}}
			if got := words.to(named(tt.to), tt.req); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
			}
		}
		old := request(term - 1)
		old.Term = term - 1
		words := directEarlyCommits{&Config{
			Raft: func() *raft.Raft { return five }, LocalServer: server(1, "m1:1"), Releases: allReleased{}, Durability: fixedDurability{},
			ConfigurationCommitted: func() bool { return true }, AwaitingCommit: func() []uint32 { return []uint32{2} },
		}}
		if got := words.to(named(2), old); got != nil {
			t.Errorf("%+v of a term that is over", got)
		}
	})
}

// A follower commits the entries that all members in the word have reported to it in the term, and as many others as the
// word demands.
func TestDirectCommits(t *testing.T) {
	header := headerOf(1, "m1:1")
	must := directVoter{named(3), true}
	for _, tt := range []struct {
		name  string
		word  directPart
		told  map[uint32]copyReport
		wants uint64
	}{
		{"the one that must", directPart{index: 9, voters: []directVoter{must}}, map[uint32]copyReport{3: {5, 9}}, 9},
		{"a part", directPart{index: 9, voters: []directVoter{must}}, map[uint32]copyReport{3: {5, 7}}, 7},
		{"more than the word", directPart{index: 9, voters: []directVoter{must}}, map[uint32]copyReport{3: {5, 11}}, 9},
		{"another one", directPart{index: 9, voters: []directVoter{must}}, map[uint32]copyReport{2: {5, 9}, 4: {5, 9}}, 0},
		{"in an earlier term", directPart{index: 9, voters: []directVoter{must}}, map[uint32]copyReport{3: {4, 9}}, 0},
		{"in a later term", directPart{index: 9, voters: []directVoter{must}}, map[uint32]copyReport{3: {6, 9}}, 0},
		{"one of three", directPart{index: 9, copies: 1, voters: of(3, 4, 5)}, map[uint32]copyReport{4: {5, 8}, 5: {4, 9}}, 8},
		{"none that counts", directPart{index: 9, copies: 1, voters: of(3, 4, 5)}, map[uint32]copyReport{6: {5, 9}}, 0},
		{"two of five, and one has less", directPart{index: 9, copies: 2, voters: of(3, 4, 5)}, map[uint32]copyReport{3: {5, 9}, 4: {5, 6}}, 6},
		{"one of three, not the one that must", directPart{index: 9, copies: 1, voters: append(of(4, 5), must)}, map[uint32]copyReport{4: {5, 9}}, 0},
	} {
		for _, wordLast := range []bool{false, true} {
			var d directCommits
			var last *raft.AppendEntriesRequest
			pass := func(notice *raft.AppendEntriesRequest) {
				if notice != nil {
					last = notice
				}
			}
			word := func() { pass(d.noteEarlyCommit(&raft.AppendEntriesRequest{RPCHeader: header, Term: 5}, &tt.word)) }
			if !wordLast {
				word()
			}
			for id, report := range tt.told {
				pass(d.noteCopy(named(id), report))
			}
			if wordLast {
				word()
			}
			var want *raft.AppendEntriesRequest
			if tt.wants > 0 {
				want = &raft.AppendEntriesRequest{RPCHeader: header, Term: 5, PrevLogEntry: tt.wants, PrevLogTerm: 5, LeaderCommitIndex: tt.wants}
			}
			if !reflect.DeepEqual(last, want) {
				t.Errorf("%s: %+v, want %+v", tt.name, last, want)
			}
			if again := d.noteEarlyCommit(&raft.AppendEntriesRequest{RPCHeader: header, Term: 5}, &tt.word); again != nil {
				t.Errorf("%s: it is passed twice: %+v", tt.name, again)
			}
		}
	}
}

// A word ends with its term, and a message that comes after a later one of its sender is ignored.
func TestDirectCommitsOfTerms(t *testing.T) {
	var d directCommits
	word := func(term, index uint64) *raft.AppendEntriesRequest {
		return d.noteEarlyCommit(&raft.AppendEntriesRequest{Term: term}, &directPart{index: index, voters: []directVoter{{named(3), true}}})
	}
	if n := word(5, 9); n != nil {
		t.Fatalf("%+v without a message", n)
	}
	if n := word(6, 8); n != nil {
		t.Fatalf("%+v without a message", n)
	}
	if n := d.noteCopy(named(3), copyReport{5, 9}); n != nil {
		t.Errorf("%+v of the term before", n)
	}
	if n := word(5, 9); n != nil {
		t.Errorf("%+v by a word of the term before", n)
	}
	if n := d.noteCopy(named(3), copyReport{6, 9}); n == nil || n.Term != 6 || n.LeaderCommitIndex != 8 {
		t.Errorf("%+v, want a commit of 8 in term 6", n)
	}
	if n := d.noteCopy(named(3), copyReport{5, 12}); n != nil {
		t.Errorf("%+v by an older message", n)
	}
	if n := word(6, 10); n == nil || n.LeaderCommitIndex != 9 {
		t.Errorf("%+v, want a commit of 9", n)
	}
	for id := range uint64(3 * maxRepliedServers) { // a member that lies about its disk
		d.noteCopy(Peer{ID: 4, DiskID: 1}.ServerID()+raft.ServerID(rune('a'+id)), copyReport{6, id})
	}
	if len(d.told) > maxRepliedServers {
		t.Errorf("%d messages are kept", len(d.told))
	}
}

// readAll reads what a connection to a follower carries.
func readAll(t *testing.T, sent []byte) (command any, direct *directPart, err error) {
	t.Helper()
	far, near := net.Pipe()
	defer far.Close()
	in := newInConn(near, newPeerConns(slog.New(slog.DiscardHandler)))
	defer in.Close()
	go func() {
		_, _ = far.Write(sent)
		far.Close()
	}()
	command, err = in.readRequest()
	return command, in.direct, err
}

// A direct part comes with the frame after it, whatever that is, and one that no leader sends is rejected.
func TestDirectPartIsRead(t *testing.T) {
	req := &raft.AppendEntriesRequest{Term: 5, PrevLogEntry: 9, PrevLogTerm: 5}
	many := of(slices.Repeat([]uint32{255}, maxDirectVoters)...)
	most := &directPart{index: 9, copies: maxDirectVoters, voters: many}
	for _, v := range many {
		most.tell = append(most.tell, v.server)
	}
	some := &directPart{index: 9, copies: 1, voters: []directVoter{{named(3), true}, {named(4), false}}, tell: []raft.ServerID{named(2)}}
	untold := &directPart{index: 9, voters: []directVoter{{named(3), true}}}
	for name, d := range map[string]*directPart{"some": some, "the most": most, "none to tell": untold} {
		for _, notice := range []bool{false, true} {
			_, got, err := readAll(t, append(appendDirect(nil, d), framed(t, req, notice)...))
			if err != nil || !reflect.DeepEqual(got, d) {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
	}
	entries := framed(t, req, false)
	part := func(change func(*directPart)) []byte {
		d := *most
		change(&d)
		return append(appendDirect(nil, &d), entries...)
	}
	older := framed(t, &raft.AppendEntriesRequest{Term: 5, PrevLogEntry: 9, PrevLogTerm: 4}, true)
	for name, sent := range map[string][]byte{
		"a voter too many":                       part(func(d *directPart) { d.voters = append(d.voters, d.voters[0]) }),
		"one too many to tell":                   part(func(d *directPart) { d.tell = append(d.tell, d.tell[0]) }),
		"a voter too many, and none to tell":     part(func(d *directPart) { d.voters, d.tell = append(d.voters, d.voters[0]), nil }),
		"one too many to tell, and no voters":    part(func(d *directPart) { d.voters, d.copies, d.tell = nil, 0, append(d.tell, d.tell[0]) }),
		"more copies than voters":                part(func(d *directPart) { d.copies++ }),
		"a word beyond the request":              part(func(d *directPart) { d.index = 10 }),
		"a word of an earlier term":              append(appendDirect(nil, some), older...),
		"another direct part after it":           append(appendDirect(nil, some), appendDirect(nil, some)...),
		"a direct message after it":              appendCopy(appendDirect(nil, some), copyReport{5, 9}),
		"a request of another kind after it":     append(appendDirect(nil, some), requests(t)["heartbeat"]...),
		"a kind that does not exist, after it":   append(appendDirect(nil, some), byte(len(requestKinds))),
		"a kind that does not exist, without it": {byte(len(requestKinds))},
	} {
		if _, _, err := readAll(t, sent); !errors.Is(err, errNotRaftRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, got, err := readAll(t, entries); got != nil || err != nil {
		t.Errorf("%+v, %v without a direct part", got, err)
	}
	if got, _, err := readAll(t, appendCopy(nil, copyReport{1 << 40, 9})); err != nil || *got.(*copyReport) != (copyReport{1 << 40, 9}) {
		t.Errorf("a direct message: %+v, %v", got, err)
	}
	if _, _, err := readAll(t, appendCopy(nil, copyReport{5, 9})[:copySize]); !isCut(err) && !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a direct message that is cut short: %v", err)
	}
}

// A word is sent once, with entries or in a notice, unless the follower commits as far without it.
func TestDirectEarlyCommitIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t)
		s.conn.takesFrames.Store(true)
		s.term.Store(5)
		word := func(index uint64) {
			s.direct.Store(&directPart{index: index, voters: []directVoter{{named(3), true}}, tell: []raft.ServerID{named(4)}})
		}
		check := func(when string, word uint64, tells bool) {
			t.Helper()
			d := s.far.direct.Swap(nil)
			if d == nil {
				d = new(directPart)
			}
			if d.index != word || (len(d.tell) > 0) != tells || (len(d.voters) > 0) != (word > 0) {
				t.Errorf("%s: sent %+v, want the word of %d", when, d, word)
			}
		}
		word(11)
		s.send(10, 12, 9)
		check("with entries", 11, true)
		s.told(9)
		check("the same word", 0, false)
		word(12)
		s.told(9)
		check("the disk has written more", 12, false)
		s.send(13, 13, 9)
		check("no news", 0, true)
		s.given.Store(14)
		word(14)
		s.send(14, 14, 9)
		check("the follower has the leader's word without it", 0, true)
	})
}

// A follower reports to others when it acknowledges the entries of a request: when they are settled.
func TestCopiesAreToldWhenSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := make(chan copyReport, 4)
		tr, dials := newTelling(t, sent)
		var settled atomic.Uint64
		tr.cfg.Durability = fixedDurability{settled: func(index uint64) uint64 { return min(index, settled.Load()) }}
		far, near := net.Pipe()
		defer far.Close()
		in := newInConn(near, tr.receiver.peerConns)
		defer in.Close()
		go func() { _, _ = io.Copy(io.Discard, far) }()
		in.form = inFrames
		in.direct = &directPart{tell: []raft.ServerID{named(2), named(9)}} // 9 is unknown
		reply := func(req *raft.AppendEntriesRequest, success bool) {
			if err := tr.receiver.reply(in, req, &raft.AppendEntriesResponse{Success: success}, nil); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
		}
		one := func(index, term uint64) *raft.AppendEntriesRequest {
			return &raft.AppendEntriesRequest{Term: 5, Entries: []*raft.Log{{Index: index, Term: term}}}
		}
		reply(one(7, 5), true)
		if len(sent) != 0 {
			t.Error("told before the entries are settled")
		}
		settled.Store(7)
		tr.receiver.settled.fire()
		if got := <-sent; got != (copyReport{5, 7}) {
			t.Errorf("told %+v", got)
		}
		settled.Store(20)
		reply(one(8, 4), true)
		reply(one(9, 5), false)
		reply(&raft.AppendEntriesRequest{Term: 5, PrevLogEntry: 10, PrevLogTerm: 5}, true)
		in.direct = nil
		reply(one(11, 5), true)
		if len(sent) != 0 {
			t.Errorf("told %+v of an entry of an earlier term, a request that was rejected or has no entries, or that names nobody", <-sent)
		}
		if n := dials.Load(); n != 1 {
			t.Errorf("%d connections were opened", n)
		}
	})
}

// newTelling returns a Transport that can reach server 2, and passes its reports to that server to sent.
func newTelling(t *testing.T, sent chan<- copyReport) (tr *Transport, dials *atomic.Int32) {
	dials = new(atomic.Int32)
	tr = newTestTransport(t, newPipes(func(c net.Conn) {
		dials.Add(1)
		go func() {
			defer c.Close()
			for {
				b := make([]byte, 1+copySize)
				if _, err := io.ReadFull(c, b); err != nil || b[0] != frameCopy {
					return
				}
				sent <- *parseCopy(b[1:])
			}
		}()
	}))
	tr.dialer.addressOf = func(server raft.ServerID) (raft.ServerAddress, bool) { return "m2:1", server == named(2) }
	return tr, dials
}

// Only the last message to a server is kept while it cannot be sent. A connection that has carried none for long is closed, and one that
// breaks is opened again.
func TestCopiesAreNotQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent := make(chan copyReport)
		tr, dials := newTelling(t, sent)
		tell := func(term, index uint64) {
			tr.receiver.directCopies.send([]raft.ServerID{named(2)}, copyReport{term, index})
		}
		for index := range uint64(100) {
			tell(5, index+1)
			if index < 2 {
				synctest.Wait() // the first one is read, and the second one is on its way
			}
		}
		tell(4, 1000)
		synctest.Wait()
		var got []copyReport
		for range 3 {
			got = append(got, <-sent)
		}
		if want := []copyReport{{5, 1}, {5, 2}, {5, 100}}; !slices.Equal(got, want) {
			t.Errorf("told %v, want %v", got, want)
		}
		time.Sleep(directIdle + time.Second)
		synctest.Wait()
		if n := len(tr.receiver.directCopies.senders); n != 0 {
			t.Errorf("%d senders are left", n)
		}
		tell(5, 101)
		if r := <-sent; r.index != 101 || dials.Load() != 2 {
			t.Errorf("told %+v over connection %d, want 101 over another one", r, dials.Load())
		}
	})
}

// A server that cannot be reached is not dialed all the time.
func TestUnreachableServerIsToldSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int32
		tr := newTestTransport(t, newPipes(nil))
		tr.dialer.addressOf = func(raft.ServerID) (raft.ServerAddress, bool) { dials.Add(1); return "m2:1", true }
		begun := dials.Load()
		for index := range uint64(100) {
			tr.receiver.directCopies.send([]raft.ServerID{named(2)}, copyReport{5, index + 1})
			time.Sleep(directPause / 50)
		}
		if n := dials.Load() - begun; n > 5 {
			t.Errorf("%d attempts in %v", n, 2*directPause)
		}
	})
}

// A follower passes no notice to raft that follows no leader, or another one, or whose leader's connections have ended.
func TestDirectCommitNeedsTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, by := leaderless(t)
		p := newPipes(nil)
		tr := newTestTransport(t, p)
		tr.cfg.Raft = func() *raft.Raft { return r }
		tr.cfg.StoredEntry = func(uint64) *raft.Log { return new(raft.Log) }
		tr.SetHeartbeatHandler(nil)
		passed := make(chan *raft.AppendEntriesRequest, 1)
		var serving sync.WaitGroup
		defer serving.Wait()
		over := make(chan struct{})
		defer close(over)
		serving.Go(func() {
			for {
				select {
				case rpc := <-tr.Consumer():
					passed <- rpc.Command.(*raft.AppendEntriesRequest)
					rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
				case <-over:
					return
				}
			}
		})
		notice := &raft.AppendEntriesRequest{RPCHeader: headerOf(2, "m2:1"), Term: 5, PrevLogEntry: 9, PrevLogTerm: 5, LeaderCommitIndex: 9}
		passes := func() bool {
			tr.receiver.commitDirectly(r, notice)
			select {
			case got := <-passed:
				return got == notice
			default:
				return false
			}
		}
		leaders := p.connect(2)
		defer p.connect(3).Close()
		synctest.Wait()
		if passes() {
			t.Error("passed without a leader")
		}
		hear(t, by, headerOf(3, "m3:1"))
		if passes() {
			t.Error("passed under another leader")
		}
		hear(t, by, headerOf(2, "m2:1"))
		released := new(leased)
		tr.cfg.Releases = released
		if !passes() || !slices.Equal(released.told, []uint64{5, 9, 0}) {
			t.Errorf("not passed, or not released: %d", released.told)
		}
		leaders.Close()
		synctest.Wait()
		if passes() {
			t.Error("passed after the leader's last connection has ended")
		}
	})
}

// A message with an impossible term or index ends its connection, and other members' messages need no reply.
func TestUnreachableCopyIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := leaderless(t)
		own := logEnd{term: r.CurrentTerm(), index: r.LastIndex()}
		for name, tt := range map[string]struct {
			report copyReport
			ok     bool
		}{
			"the greatest term":  {copyReport{own.term + maxTermStep, 1}, true},
			"a term above it":    {copyReport{own.term + maxTermStep + 1, 1}, false},
			"the greatest index": {copyReport{1, own.index + maxIndexStep}, true},
			"an index above it":  {copyReport{1, own.index + maxIndexStep + 1}, false},
			"zeros":              {copyReport{}, true},
			"the most":           {copyReport{1<<64 - 1, 1<<64 - 1}, false},
		} {
			p := newPipes(nil)
			tr := newTestTransport(t, p)
			tr.cfg.Raft = func() *raft.Raft { return r }
			conn := p.connect(3)
			if !send(conn, appendCopy(nil, tt.report)) {
				t.Fatal("not read")
			}
			synctest.Wait()
			_, kept := tr.receiver.directCommits.told[named(3)]
			_ = conn.SetReadDeadline(time.Now().Add(time.Second))
			_, err := conn.Read(make([]byte, 1))
			if ended := errors.Is(err, io.EOF); ended == tt.ok || kept != (tt.ok && tt.report != copyReport{}) {
				t.Errorf("%s: the connection has ended: %v, and the message is kept: %v", name, ended, kept)
			}
			conn.Close()
		}
	})
}

// When the leader's disk has written, all followers among three voters may hear of it, and among five those whose clients wait.
func TestWhoHearsOfTheDisk(t *testing.T) {
	for _, tt := range []struct {
		voters uint32
		want   [2]bool // of members 2 and 3; the clients of 3 wait
	}{{3, [2]bool{true, true}}, {5, [2]bool{false, true}}} {
		synctest.Test(t, func(t *testing.T) {
			var peers []Peer
			for id := range tt.voters {
				peers = append(peers, server(id+1, fmt.Sprintf("m%d:1", id+1)))
			}
			r, _ := leaderlessOf(t, peers...)
			_, two, three := leads(t)
			tr := newTestTransport(t, newPipes(nil))
			tr.cfg.Raft = func() *raft.Raft { return r }
			for _, s := range []*stream{two, three} {
				tr.openPipelines.Store(s.pipeline, nil)
				s.conn.takesFrames.Store(true)
				s.direct.Store(&directPart{index: 9, voters: []directVoter{{named(4), true}}})
			}
			tr.NotifyDurable([]uint32{3})
			synctest.Wait()
			if got := [2]bool{two.far.direct.Load() != nil, three.far.direct.Load() != nil}; got != tt.want {
				t.Errorf("among %d, members 2 and 3 hear: %v, want %v", tt.voters, got, tt.want)
			}
		})
	}
}
