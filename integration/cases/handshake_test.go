package cases

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"time"

	"rollcall/config"
	"rollcall/integration/cluster"
	"rollcall/integration/wire"
	"rollcall/member"
	"rollcall/zk/jute"
)

// handshake is group A: how a connection gets its session.
var handshake = []row{
	{number: 1, name: "new session", where: everywhere, run: newSession},
	{number: 2, name: "new session of an old client", where: everywhere, run: newSessionOld},
	{number: 3, name: "timeouts below the least", where: everywhere, run: leastTimeout},
	{number: 4, name: "timeouts above the most", where: everywhere, run: mostTimeout},
	{number: 5, name: "limits follow the tick", where: everywhere, run: limitsOfTick, options: cluster.Options{
		Tick: 700 * time.Millisecond, Adjust: func(cfg *member.Config) { cfg.MinTimeout, cfg.MaxTimeout = 0, 0 },
	}},
	{number: 6, name: "limits as configured", where: everywhere, run: limitsOfConfig, options: cluster.Options{
		Adjust: func(cfg *member.Config) { cfg.MinTimeout, cfg.MaxTimeout = 20*time.Second, 240*time.Second },
	}},
	{number: 7, name: "impossible limits", where: standalone, run: impossibleLimits},
	{number: 8, name: "protocol version 7", where: everywhere, run: protocolVersion},
	{number: 9, name: "password of a new session", where: everywhere, run: newPassword},
	{number: 10, name: "byte by byte", where: everywhere, run: byteByByte},
	{number: 11, name: "requests behind the handshake", where: everywhere, run: pipelinedHandshake},
	{number: 12, name: "second handshake", where: everywhere, run: secondHandshake},
	{number: 13, name: "silent connection", where: everywhere, run: silentConnection},
	{number: 14, name: "request before the handshake", where: everywhere, run: requestFirst},
	{number: 15, name: "impossible first frame", where: everywhere, run: impossibleFrame},
	{number: 16, name: "client ahead, new session", where: everywhere, run: clientAheadNew},
	{number: 17, name: "client ahead, resume", where: everywhere, run: clientAheadResume},
	{number: 18, name: "unknown session", where: everywhere, run: unknownSession},
	{number: 19, name: "wrong password", where: everywhere, run: wrongPassword, differs: "resume with a wrong password"},
	{number: 20, name: "password a byte short", where: everywhere, run: shortPassword},
	{number: 21, name: "resume after close", where: everywhere, run: resumeClosed},
	{number: 22, name: "resume after expiry", where: everywhere, run: resumeExpired},
	{number: 23, name: "resume", where: everywhere, run: resumeInTime},
	{number: 24, name: "resume with another timeout", where: everywhere, run: resumeRenegotiates, differs: "resume"},
	{number: 25, name: "resume on every member", where: three, run: resumeEverywhere, differs: "session password"},
	{number: 26, name: "session ids", where: everywhere, run: sessionIDs},
	{number: 27, name: "maxClientCnxns 3", where: everywhere, run: threePerAddress, options: cluster.Options{
		Adjust: func(cfg *member.Config) { cfg.Limits.MaxClientConns = 3 },
	}},
	{number: 28, name: "maxClientCnxns default", where: everywhere, run: sixtyPerAddress},
	{number: 29, name: "handshake without a quorum", where: three, run: noQuorum, differs: "connecting while there is no leader"},
	{number: 30, name: "bytes of a refusal", where: everywhere, run: refusalBytes},
	{number: 31, name: "read-only will do", where: everywhere, run: readOnlyFlag},
}

// hexBytes turns groups of hex digits into bytes.
func hexBytes(s *stage, text string) []byte {
	s.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		s.Fatal(err)
	}
	return b
}

const (
	connectNew    = "0000002d 00000000 0000000000000000 00002710 0000000000000000 00000010 00000000000000000000000000000000 00"
	connectNewOld = "0000002c 00000000 0000000000000000 00002710 0000000000000000 00000010 00000000000000000000000000000000"
)

// connectBytes sends a request byte for byte and returns the reply, including its length.
func connectBytes(s *stage, c net.Conn, request string, answer int) []byte {
	s.Helper()
	if _, err := c.Write(hexBytes(s, request)); err != nil {
		s.Fatal(err)
	}
	b := make([]byte, answer)
	if _, err := io.ReadFull(c, b); err != nil {
		s.Fatalf("answer of %d bytes: %v", answer, err)
	}
	return b
}

func newSession(s *stage) {
	b := connectBytes(s, s.dial(s.at).Conn, connectNew, 4+37)
	checkConnect(s, b, 37)
	if b[40] != 0 {
		s.Errorf("readOnly %d", b[40])
	}
}

func newSessionOld(s *stage) {
	c := s.dial(s.at)
	checkConnect(s, connectBytes(s, c.Conn, connectNewOld, 4+36), 36)
	if r, _, err := c.Call(jute.XidPing, jute.OpPing, nil); err != nil || r.Err != jute.OK {
		s.Errorf("ping: %v, %v; a byte too much in the answer?", r, err)
	}
}

// checkConnect checks the fields that are the same for all clients.
func checkConnect(s *stage, b []byte, length uint32) {
	s.Helper()
	n := binary.BigEndian.Uint32
	if n(b) != length || n(b[4:]) != 0 || n(b[8:]) != 10000 || n(b[20:]) != 16 {
		s.Errorf("answer % x: want length %d, version 0, timeout 10000, a password of 16", b, length)
	}
	if bytes.Equal(b[12:20], make([]byte, 8)) || bytes.Equal(b[24:40], make([]byte, 16)) {
		s.Errorf("answer % x: id or password is zero", b)
	}
}

func leastTimeout(s *stage) {
	for _, ask := range []int32{math.MinInt32, -5, 0, 1, 1999, 2000} {
		if got := s.grantedTimeout(s.at, ask); got != 2000 {
			s.Errorf("asked for %d, granted %d", ask, got)
		}
	}
}

func mostTimeout(s *stage) {
	for _, ask := range []int32{20000, 20001, math.MaxInt32} {
		if got := s.grantedTimeout(s.at, ask); got != 20000 {
			s.Errorf("asked for %d, granted %d", ask, got)
		}
	}
}

func limitsOfTick(s *stage) {
	const tick = 700
	for ask, want := range map[int32]int32{4 * tick: 4 * tick, tick: 2 * tick, 30 * tick: 20 * tick} {
		if got := s.grantedTimeout(s.at, ask); got != want {
			s.Errorf("asked for %d, granted %d, want %d", ask, got, want)
		}
	}
}

func limitsOfConfig(s *stage) {
	for ask, want := range map[int32]int32{19999: 20000, 33333: 33333, 240001: 240000} {
		if got := s.grantedTimeout(s.at, ask); got != want {
			s.Errorf("asked for %d, granted %d, want %d", ask, got, want)
		}
	}
}

func impossibleLimits(s *stage) {
	l, err := s.Network.Listen(9, "m9:2181")
	if err != nil {
		s.Fatal(err)
	}
	defer l.Close()
	m, err := member.New(member.Config{
		ID: 9, Servers: []member.Server{{ID: 9, GrpcAddr: "m9:2888", RaftAddr: "m9:3888"}},
		ClientListener: l, Settings: config.Settings{Dir: s.TempDir(), Tick: tick, MinTimeout: 20 * time.Second, MaxTimeout: 19 * time.Second}.WithDefaults(),
	})
	if err == nil || m != nil {
		s.Fatal("a member with a minSessionTimeout above its maxSessionTimeout was made")
	}
	if !strings.Contains(err.Error(), "20s") || !strings.Contains(err.Error(), "19s") {
		s.Errorf("the refusal does not name the limits: %v", err)
	}
}

func protocolVersion(s *stage) {
	_, resp := s.shake(s.at, jute.ConnectRequest{ProtocolVersion: 7, TimeOut: 10000, Passwd: make([]byte, 16), HasReadOnly: true})
	if resp.ProtocolVersion != 0 || resp.SessionID == 0 {
		s.Errorf("answered %+v", resp)
	}
}

func newPassword(s *stage) {
	random := []byte("sixteen of these")
	seen := map[string]bool{string(random): true, string(make([]byte, 16)): true}
	for _, passwd := range [][]byte{nil, {}, random[:8], random} {
		_, resp := s.shake(s.at, jute.ConnectRequest{TimeOut: 10000, Passwd: passwd, HasReadOnly: true})
		if resp.SessionID == 0 || len(resp.Passwd) != 16 || seen[string(resp.Passwd)] {
			s.Errorf("with password %q: answered %+v", passwd, resp)
		}
		seen[string(resp.Passwd)] = true
	}
}

func byteByByte(s *stage) {
	c := s.dial(s.at)
	request := hexBytes(s, connectNew)
	for i := range request[:len(request)-1] {
		if _, err := c.Write(request[i : i+1]); err != nil {
			s.Fatal(err)
		}
	}
	checkConnect(s, connectBytes(s, c.Conn, "00", 4+37), 37)
}

func pipelinedHandshake(s *stage) {
	c := s.dial(s.at)
	b := hexBytes(s, connectNew)
	b = appendFrame(b, wire.Frame(jute.XidPing, jute.OpPing, nil))
	b = appendFrame(b, wire.Frame(1, jute.OpCreate, create("/a", jute.Persistent)))
	if _, err := c.Write(b); err != nil {
		s.Fatal(err)
	}
	if resp, err := c.ReadConnect(); err != nil || resp.SessionID == 0 {
		s.Fatalf("handshake: %+v, %v", resp, err)
	}
	for _, xid := range []int32{jute.XidPing, 1} {
		if r, err := c.Recv(); err != nil || r.Xid != xid || r.Err != jute.OK {
			s.Fatalf("%v, %v; want a reply to xid %d", r, err, xid)
		}
	}
	s.present("/a")
}

func secondHandshake(s *stage) {
	k := s.open(s.at, usual)
	if _, err := k.Write(hexBytes(s, connectNew)); err != nil {
		s.Fatal(err)
	}
	f, ok := k.next()
	if !ok || f.Xid != 0 || f.Zxid != -1 || f.Err != jute.Unimplemented || len(f.Body) != 0 {
		s.Fatalf("%v, %t; want xid 0, zxid -1, err -6", f.Reply, ok)
	}
	k.mustEnd(tick)
	k.resume(s.at)
}

func silentConnection(s *stage) {
	c := s.dial(s.at)
	begun := time.Now()
	s.closed(c, patience)
	if d := time.Since(begun); d < 10*time.Second || d > 20*time.Second {
		s.Errorf("closed after %v, want 10 to 20 s", d)
	}
}

func requestFirst(s *stage) {
	c := s.dial(s.at)
	if err := c.Send(1, jute.OpPing, nil); err != nil {
		s.Fatal(err)
	}
	s.closed(c, tick)
}

func impossibleFrame(s *stage) {
	for _, length := range []string{"00000000", "ffffffff", "00100000"} {
		c := s.dial(s.at)
		if _, err := c.Write(hexBytes(s, length)); err != nil {
			s.Fatal(err)
		}
		s.closed(c, tick)
	}
}

func clientAheadNew(s *stage) {
	req := jute.ConnectRequest{TimeOut: 10000, Passwd: make([]byte, 16), HasReadOnly: true}
	s.open(s.at, usual).create("/a", jute.Persistent)
	s.quiesce()
	before := s.zxid(s.at)
	req.LastZxidSeen = before + 1000
	s.unanswered(s.at, req, tick)
	if after := s.zxid(s.at); after != before {
		s.Errorf("a session was made: zxid %#x, then %#x", before, after)
	}
	req.LastZxidSeen = before
	s.start(s.at, req)
}

func clientAheadResume(s *stage) {
	k := s.open(s.at, usual)
	k.drop()
	req := claim(k.granted)
	req.LastZxidSeen = s.zxid(s.at) + 1<<40
	s.unanswered(s.at, req, tick)
	k.resume(s.at).mustLive()
}

func unknownSession(s *stage) {
	s.checkRejected(s.at, jute.ConnectRequest{TimeOut: 10000, SessionID: 99999, Passwd: make([]byte, 16), HasReadOnly: true})
}

// A client that knows only the id gets nothing and does no harm: unlike with ZooKeeper, the
// session's connection stays open.
func wrongPassword(s *stage) {
	k := s.open(s.at, usual)
	k.create("/e", jute.Ephemeral)
	wrong := claim(k.granted)
	wrong.Passwd = bytes.Clone(wrong.Passwd)
	wrong.Passwd[15] ^= 1
	for _, member := range s.IDs() {
		s.checkRejected(member, wrong)
	}
	k.mustLive()
	next := k.resume(s.at)
	k.mustEnd(tick)
	next.mustLive()
	s.present("/e")
}

func shortPassword(s *stage) {
	k := s.open(s.at, usual)
	short := claim(k.granted)
	for _, passwd := range [][]byte{short.Passwd[:15], {}, nil, append(bytes.Clone(short.Passwd), 0)} {
		short.Passwd = passwd
		for _, member := range s.IDs() {
			s.checkRejected(member, short)
		}
	}
	k.mustLive()
}

func resumeClosed(s *stage) {
	k := s.open(s.at, usual)
	k.closeSession()
	for _, member := range s.IDs() {
		s.checkRejected(member, claim(k.granted))
	}
}

func resumeExpired(s *stage) {
	k := s.open(s.at, 4*time.Second)
	k.create("/e", jute.Ephemeral)
	k.drop()
	k.checkExpiry("/e")
	for _, member := range s.IDs() {
		s.checkRejected(member, claim(k.granted))
	}
}

func resumeInTime(s *stage) {
	k := s.open(s.at, usual)
	k.create("/e", jute.Ephemeral)
	k.drop()
	time.Sleep(8 * time.Second)
	next := k.resume(s.at)
	if owner := next.stat("/e").EphemeralOwner; owner != k.id() {
		s.Errorf("/e is owned by %v, want %v", owner, k.id())
	}
	s.present("/e")
}

// The timeout of the newest connect counts. Unlike with ZooKeeper, it counts on every member and
// survives a change of leader. The resume takes no zxid.
func resumeRenegotiates(s *stage) {
	k := s.open(s.at, 4*time.Second)
	k.create("/e", jute.Ephemeral)
	before := s.zxid(s.at)
	longer := claim(k.granted)
	longer.TimeOut = 12000
	next := s.start(s.at, longer)
	if next.granted.TimeOut != 12000 || next.id() != k.id() {
		s.Fatalf("asked for 12000: %+v", next.granted)
	}
	s.quiesce()
	for _, member := range s.IDs() {
		if r, ok := s.record(member, k.id()); !ok || r.Timeout != 12*time.Second {
			s.Errorf("member %d has the session with %v", member, r.Timeout)
		}
	}
	if after := s.zxid(s.at); after != before {
		s.Errorf("the resume took a zxid: %#x, then %#x", before, after)
	}
	next.checkExpiry("/e")
}

// passwordOfID returns the password that ZooKeeper's server gives out for an id. Anyone can compute
// it.
func passwordOfID(id jute.SessionID) []byte {
	const mask = 1<<48 - 1
	state := (uint64(id) ^ 0xB3415C00 ^ 0x5DEECE66D) & mask
	var b []byte
	for range 4 {
		state = (state*0x5DEECE66D + 0xB) & mask
		b = binary.LittleEndian.AppendUint32(b, uint32(state>>16))
	}
	return b
}

// Every member knows the password, although unlike ZooKeeper's it cannot be computed.
func resumeEverywhere(s *stage) {
	if got := hex.EncodeToString(passwordOfID(0x0100000df1d70036)); got != "9399c612eb6b53174f64f562b6b71d29" {
		s.Fatalf("ZooKeeper's password is computed as %s", got)
	}
	k := s.open(s.at, usual)
	if bytes.Equal(k.granted.Passwd, passwordOfID(k.id())) {
		s.Error("the password can be computed from the id")
	}
	guess := claim(k.granted)
	guess.Passwd = passwordOfID(k.id())
	for _, member := range []uint32{s.other(), s.third(), s.at} {
		s.checkRejected(member, guess)
		k = k.resume(member)
		k.ok(jute.OpPing, nil)
	}
}

func sessionIDs(s *stage) {
	first, second := s.open(s.at, usual).id(), s.open(s.at, usual).id()
	for _, id := range []jute.SessionID{first, second} {
		if top := uint32(uint64(id) >> 56); top != s.at {
			s.Errorf("id %v on member %d: top byte %d", id, s.at, top)
		}
	}
	if second <= first {
		s.Errorf("ids %v, then %v", first, second)
	}
}

func threePerAddress(s *stage) { perAddress(s, 3) }
func sixtyPerAddress(s *stage) { perAddress(s, 60) }

// perAddress checks that n connections from one address are accepted and no more, and that closing
// one makes room.
func perAddress(s *stage, n int) {
	var conns []*session
	for range n {
		conns = append(conns, s.open(s.at, usual))
	}
	for range 2 {
		s.closed(s.dial(s.at), tick)
	}
	if n == 3 && len(s.IDs()) > 1 {
		s.open(s.other(), usual) // each member counts its own connections
	}
	conns[1].drop()
	s.Wait("room for another connection", tick, func() bool {
		c, err := s.Dial(s.at)
		if err != nil {
			return false
		}
		defer c.Close()
		resp, err := c.Open(usual)
		return err == nil && resp.SessionID != 0
	})
	conns[0].mustLive()
}

// Unlike ZooKeeper's, a member without a leader lets a handshake wait, because an election is soon over. If none
// succeeds, it closes the connection without a reply.
func noQuorum(s *stage) {
	known := s.open(s.other(), 20*time.Second)
	s.Kill(s.other())
	s.Kill(s.third())
	for _, req := range []jute.ConnectRequest{
		{TimeOut: 10000, Passwd: make([]byte, 16), HasReadOnly: true},
		claim(known.granted),
	} {
		begun := time.Now()
		s.unanswered(s.at, req, 30*time.Second)
		if waited := time.Since(begun); waited < 2*tick {
			s.Errorf("closed after %v: an election would not have helped", waited)
		}
	}
	c := s.dial(s.at)
	if err := jute.WriteFrame(c.Conn, jute.ConnectRequest{TimeOut: 10000, Passwd: make([]byte, 16)}.Append(nil)); err != nil {
		s.Fatal(err)
	}
	time.Sleep(tick)
	s.Boot(s.other())
	s.Boot(s.third())
	if resp, err := c.ReadConnect(); err != nil || resp.SessionID == 0 {
		s.Errorf("handshake that waited for the quorum to come back: %+v, %v", resp, err)
	}
	s.Ready()
}

func refusalBytes(s *stage) {
	const unknown = " 00000000 0000000000000000 00002710 000000000001869f 00000010 00000000000000000000000000000000"
	for request, length := range map[string]int{"0000002d" + unknown + "00": 37, "0000002c" + unknown: 36} {
		c := s.dial(s.at)
		got := connectBytes(s, c.Conn, request, 4+length)
		want := make([]byte, 4+length)
		binary.BigEndian.PutUint32(want, uint32(length))
		want[23] = 16
		if !slices.Equal(got, want) {
			s.Errorf("refused with % x, want % x", got, want)
		}
		s.closed(c, tick)
	}
}

func readOnlyFlag(s *stage) {
	k := s.start(s.at, jute.ConnectRequest{TimeOut: 10000, Passwd: make([]byte, 16), ReadOnly: true, HasReadOnly: true})
	if k.granted.ReadOnly {
		s.Error("readOnly 1 on a server that writes")
	}
	k.create("/a", jute.Persistent)
}
