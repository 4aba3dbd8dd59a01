package wire

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// recorded is a connection whose other end has sent what r returns, and gets what w takes.
type recorded struct {
	net.Conn
	r io.Reader
	w io.Writer
}

func (c recorded) Read(b []byte) (int, error)      { return c.r.Read(b) }
func (c recorded) Write(b []byte) (int, error)     { return c.w.Write(b) }
func (c recorded) SetReadDeadline(time.Time) error { return nil }
func (c recorded) Close() error                    { return nil }

// records returns the bytes that an end sends when it writes the parts, one after the other.
func records(t testing.TB, parts ...[]byte) []byte {
	t.Helper()
	var sent bytes.Buffer
	c := newChecksumConn(recorded{w: &sent}, nil)
	for _, part := range parts {
		if n, err := c.Write(part); err != nil || n != len(part) {
			t.Fatalf("%d of %d bytes written, %v", n, len(part), err)
		}
	}
	return sent.Bytes()
}

// arriving returns the end at which a stream arrives, and how many times it has reported a mismatch.
func arriving(stream io.Reader) (c *checksumConn, reported *int) {
	reported = new(int)
	return newChecksumConn(recorded{r: stream}, func(error) { *reported++ }), reported
}

// One end reads exactly the bytes that the other one writes, in whatever pieces both do so.
func TestChecksumsCarryEverything(t *testing.T) {
	rng := rand.NewChaCha8([32]byte{1})
	var parts [][]byte
	for _, n := range []int{1, 2, maxRecordSize - 1, maxRecordSize, maxRecordSize + 1, 0, recordsPerWrite * maxRecordSize, recordsPerWrite*maxRecordSize + 1, 300_000} {
		part := make([]byte, n)
		_, _ = rng.Read(part)
		parts = append(parts, part)
	}
	all, stream := bytes.Join(parts, nil), records(t, parts...)
	for name, pieces := range map[string]func(io.Reader) io.Reader{
		"at once": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader, "with the end": iotest.DataErrReader,
	} {
		c, reported := arriving(pieces(bytes.NewReader(stream)))
		if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, all) || *reported != 0 {
			t.Errorf("%s: %d of %d bytes came, %v", name, len(got), len(all), err)
		}
	}
	c, _ := arriving(bytes.NewReader(stream))
	if got, err := io.ReadAll(iotest.OneByteReader(c)); err != nil || !bytes.Equal(got, all) {
		t.Errorf("read bytewise: %d of %d bytes came, %v", len(got), len(all), err)
	}
	for _, n := range []int{1, recordHeaderSize, recordHeaderSize + 2*recordHeaderSize + 100} {
		c, reported := arriving(bytes.NewReader(stream[:n]))
		if _, err := io.ReadAll(c); !errors.Is(err, io.ErrUnexpectedEOF) || *reported != 0 {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
}

// requestsOf reads requests from a stream until its end, or until it fails.
func requestsOf(stream []byte) (all []any, reported int, err error) {
	c, n := arriving(bytes.NewReader(stream))
	in := newInConn(c, newPeerConns(slog.New(slog.DiscardHandler)))
	in.frameSender = headerOf(2, "m2:1")
	for {
		command, err := in.readRequest()
		if err != nil {
			return all, *n, err
		}
		all = append(all, command)
	}
}

// Whatever bit changes of what a member sends, the other one reads the requests before it, and then an error. It never reads
// another request.
func TestEveryFlippedBitIsNoticed(t *testing.T) {
	list := entries(3, 40)
	list[0].Extensions, list[1].AppendedAt = []byte("extension"), time.Unix(1_700_000_000, 123).UTC()
	stream := records(t,
		framed(t, &raft.AppendEntriesRequest{Term: 5, PrevLogEntry: 300, PrevLogTerm: 4, Entries: list, LeaderCommitIndex: 299}, false),
		framed(t, &raft.AppendEntriesRequest{Term: 5, PrevLogEntry: 302, PrevLogTerm: 5, LeaderCommitIndex: 301}, true),
		encode(t, requestVote, &raft.RequestVoteRequest{RPCHeader: headerOf(2, "m2:1"), Term: 6}),
	)
	want, reported, err := requestsOf(stream)
	if len(want) != 3 || reported != 0 || !errors.Is(err, io.EOF) {
		t.Fatalf("%d requests, %v", len(want), err)
	}
	for bit := range len(stream) * 8 {
		flipped := bytes.Clone(stream)
		flipped[bit/8] ^= 1 << (bit % 8)
		got, reported, err := requestsOf(flipped)
		if len(got) >= len(want) || len(got) > 0 && !reflect.DeepEqual(got, want[:len(got)]) || reported != 1 || !errors.Is(err, ErrCorrupted) {
			t.Fatalf("bit %d: %d requests, reported %d times, %v", bit, len(got), reported, err)
		}
	}
}

// A record that is lost, comes twice or at another place is noticed, although each one is whole.
func TestMovedRecordsAreNoticed(t *testing.T) {
	a, b, c := []byte("first record"), []byte("second record"), []byte("third record")
	stream := records(t, a, b, c)
	first, rest := stream[:recordHeaderSize+len(a)], stream[recordHeaderSize+len(a):]
	second, third := rest[:recordHeaderSize+len(b)], rest[recordHeaderSize+len(b):]
	for name, parts := range map[string][][]byte{
		"lost": {first, third}, "twice": {first, first, second, third}, "moved": {first, third, second}, "without the first": {second, third},
	} {
		c, reported := arriving(bytes.NewReader(bytes.Join(parts, nil)))
		if got, err := io.ReadAll(c); !errors.Is(err, ErrCorrupted) || *reported != 1 || !bytes.HasPrefix(a, got) {
			t.Errorf("%s: read %q, %v", name, got, err)
		}
	}
}

// Nothing follows a part of a record: the other end would take it for the rest.
func TestNothingFollowsHalfARecord(t *testing.T) {
	var sent bytes.Buffer
	short := errors.New("no room")
	c := newChecksumConn(recorded{w: failing{short}}, nil)
	if n, err := c.Write(make([]byte, 3*recordsPerWrite*maxRecordSize)); n != 0 || !errors.Is(err, short) {
		t.Errorf("%d bytes written, %v", n, err)
	}
	c.Conn = recorded{w: &sent}
	if n, err := c.Write([]byte("more")); n != 0 || !errors.Is(err, short) || sent.Len() > 0 {
		t.Errorf("then %d bytes, %v", n, err)
	}
}

type failing struct{ err error }

func (w failing) Write([]byte) (int, error) { return 1, w.err }

// A hello, or a reply to one, with a flipped bit is an error, and is never read as another message.
func TestFlippedBitsOfAHello(t *testing.T) {
	dialer, dialed := testHello(2), testHello(1)
	flips := func(sent []byte, each func(bit int, flipped []byte)) {
		for bit := range len(sent) * 8 {
			flipped := bytes.Clone(sent)
			flipped[bit/8] ^= 1 << (bit % 8)
			each(bit, flipped)
		}
	}
	flips(dialer.encodeHello(1), func(bit int, flipped []byte) {
		_, err := dialed.readAndCheckHello(bytes.NewReader(flipped), func(uint32) error { return nil })
		if r, ok := errors.AsType[*helloRejection](err); err == nil || ok && r.replyCode != helloBadVersion {
			t.Errorf("bit %d of the hello: %v", bit, err)
		}
	})
	for name, answer := range map[string][]byte{
		"welcome": dialed.encodeWelcome(), "refusal": encodeHelloReply(helloBadDisk, []byte("another disk")), "other ensemble": encodeHelloReply(helloBadEnsemble, []byte("no")),
	} {
		flips(answer, func(bit int, flipped []byte) {
			if code, rest, err := readHelloReply(bytes.NewReader(flipped)); err == nil {
				t.Errorf("%s, bit %d: code %d, %q", name, bit, code, rest)
			}
		})
	}
}

// flipping is a connection that flips a bit of each byte that is read once it is set.
type flipping struct {
	net.Conn
	set bool
}

func (c *flipping) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	for i := range b[:n] {
		if c.set {
			b[i] ^= 4
		}
	}
	return n, err
}

// A connection on which bytes change ends with an error at the end that reads them. Each is counted, and one
// of each member is logged in ten seconds.
func TestCorruptionsAreCountedAndLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs bytes.Buffer
		come := make(arrivals)
		dialer := testHello(2).WithLogger(slog.New(slog.NewTextHandler(&logs, nil)))
		l := NewListener(come, testHello(1), nil)
		defer l.Close()
		corrupt := func() {
			wire := &flipping{Conn: come.from("10.0.0.2:1")}
			conn, err := dialer.HandshakeDialed(wire, 1)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			in, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			wire.set = true
			go func() { _, _ = io.WriteString(in, "an answer") }()
			for range 2 {
				if n, err := conn.Read(make([]byte, 100)); n != 0 || !errors.Is(err, ErrCorrupted) {
					t.Errorf("read %d bytes, %v", n, err)
				}
			}
		}
		corrupt()
		corrupt()
		if n := dialer.Corruptions().Count(); n != 2 {
			t.Errorf("%d connections are counted, want 2", n)
		}
		if n := strings.Count(logs.String(), "check the network cards"); n != 1 || !strings.Contains(logs.String(), "peer=1") {
			t.Errorf("logged %q", logs.String())
		}
		time.Sleep(refusalInterval)
		corrupt()
		if n := strings.Count(logs.String(), "check the network cards"); n != 2 {
			t.Errorf("after %v logged %q", refusalInterval, logs.String())
		}
	})
}

// FuzzChecksums checks that a changed byte of a stream is noticed before anything after it is read, and that any bytes
// at all are read as a stream in bounded memory, or rejected.
func FuzzChecksums(f *testing.F) {
	for _, request := range requests(f) {
		f.Add(request, uint16(100), uint32(9), byte(1))
	}
	f.Add(bytes.Repeat([]byte("long"), maxRecordSize), uint16(maxRecordSize), uint32(maxRecordSize+20), byte(128))
	f.Fuzz(func(t *testing.T, data []byte, first uint16, at uint32, change byte) {
		n := min(int(first), len(data))
		stream := records(t, data[:n], data[n:])
		if len(stream) > 0 {
			stream[int(at)%len(stream)] ^= change
		}
		c, reported := arriving(bytes.NewReader(stream))
		got, err := io.ReadAll(c)
		changed := change != 0 && len(stream) > 0
		if !bytes.HasPrefix(data, got) || changed != errors.Is(err, ErrCorrupted) || changed != (*reported == 1) ||
			!changed && (err != nil || len(got) != len(data)) {
			t.Fatalf("%d of %d bytes read, reported %d times, %v", len(got), len(data), *reported, err)
		}
		c, _ = arriving(bytes.NewReader(data))
		if got, err := io.ReadAll(c); len(got) > len(data) {
			t.Fatalf("%d bytes are read from %q, %v", len(got), data, err)
		}
	})
}
