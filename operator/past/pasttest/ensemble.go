// Package pasttest makes kept logs in memory for tests, from a state that applies what members would:
//
//   - Ensemble: applies and records the writes of a test. It is a past.Chain.
package pasttest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"testing"

	pb "google.golang.org/protobuf/proto"

	"rollcall/operator/past"
	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// incarnation is that of the only member, 1.
const incarnation = 7

// Ensemble is a log with one member. As a past.Chain it has all entries, and the snapshots that were made. Its methods that
// write fail the test if a write is rejected. It belongs to one goroutine.
type Ensemble struct {
	t         testing.TB
	State     *znode.State
	NowMs     int64           // the stamp of the next entry
	Log       []past.Entry    // with consecutive indexes from 1; a test may damage it
	Kept      []past.Snapshot // see Snapshots; a test may change it
	First     uint64          // see FirstIndex; a test that keeps fewer entries raises it
	Images    map[string][]byte
	OpenError func(past.Snapshot) error       // its error is that of OpenSnapshot; nil: a snapshot without an image does not exist
	Follow    func(ctx context.Context) error // awaits more entries at the end; nil: the chain ends
	changed   int                             // by the last entry
	nextSeq   uint64
	term      uint64
	nextOwner uint64
}

// New returns an ensemble whose first term has begun and whose member has announced itself, both at nowMs, in entries 2 and 3.
// The first entry is raft's own.
func New(t testing.TB, nowMs int64) *Ensemble {
	e := &Ensemble{t: t, NowMs: nowMs, First: 1, Images: map[string][]byte{}, nextOwner: 100}
	e.State = znode.New(znode.Config{Observer: e})
	e.Append(nil)
	e.StartTerm()
	e.Append(e.entry(&proto.Txn{
		Member: 1, Incarnation: incarnation, Op: int32(jute.OpAnnounce), Body: e.marshal(&proto.Announce{Format: znode.FormatLevel}),
	}))
	return e
}

// ObserveChange implements znode.ChangeObserver.
func (e *Ensemble) ObserveChange(*znode.Change) { e.changed++ }

// StateReplaced implements znode.ChangeObserver.
func (e *Ensemble) StateReplaced() {}

func (e *Ensemble) marshal(m pb.Message) []byte {
	e.t.Helper()
	b, err := pb.Marshal(m)
	if err != nil {
		e.t.Fatal(err)
	}
	return b
}

func (e *Ensemble) entry(txns ...*proto.Txn) *proto.Entry {
	return &proto.Entry{Format: znode.FormatLevel, Term: e.term, Nonce: e.term, TimeMs: e.NowMs, Txns: txns}
}

// Append adds an entry, which is raft's own if it is nil.
func (e *Ensemble) Append(entry *proto.Entry) {
	e.t.Helper()
	next := past.Entry{Index: uint64(len(e.Log)) + 1, Term: max(e.term, 1)}
	if entry != nil {
		var err error
		if next.Data, err = proto.MarshalEntry(entry); err != nil {
			e.t.Fatal(err)
		}
	}
	e.Log = append(e.Log, next)
	e.changed = 0
	e.State.Lock()
	defer e.State.Unlock()
	if err := e.State.ApplyEntry(next.Index, next.Term, entry); err != nil {
		e.t.Fatal(err)
	}
}

// StartTerm opens the next term, in which the member still leads.
func (e *Ensemble) StartTerm() {
	e.t.Helper()
	e.term++
	e.Append(&proto.Entry{Format: znode.FormatLevel, TimeMs: e.NowMs, Txns: []*proto.Txn{{
		Op: int32(jute.OpTermStart), Body: e.marshal(&proto.TermStart{Leader: 1, Nonce: e.term, TtlNodes: true}),
	}}})
}

// Apply adds one entry with all of txns, each of which must change something. It returns the zxid of the last one.
func (e *Ensemble) Apply(txns ...*proto.Txn) int64 {
	e.t.Helper()
	for _, txn := range txns {
		if txn.Op == int32(jute.OpExpire) {
			continue // the leader's own
		}
		e.nextSeq++
		txn.Member, txn.Incarnation, txn.Seq = 1, incarnation, e.nextSeq
	}
	if e.Append(e.entry(txns...)); e.changed < len(txns) {
		e.t.Fatalf("%d transactions made %d changes", len(txns), e.changed)
	}
	return e.State.Zxid()
}

// Client is a session of the ensemble.
type Client struct {
	e    *Ensemble
	ID   jute.SessionID
	conn uint64
}

// Connect opens a session with a timeout of 10 s for a client at address.
func (e *Ensemble) Connect(address string) *Client {
	e.t.Helper()
	e.nextOwner++
	c := &Client{e: e, ID: jute.SessionID(1<<56 | int64(e.nextOwner)), conn: e.nextOwner}
	e.Apply(c.txn(jute.OpCreateSession, e.marshal(&proto.OpenSession{
		TimeoutMs: 10_000, Password: bytes.Repeat([]byte{1}, 16), Address: address,
	})))
	return c
}

func (c *Client) txn(op jute.Op, body []byte) *proto.Txn {
	return &proto.Txn{Session: int64(c.ID), Conn: c.conn, Op: int32(op), Body: body}
}

// CreateTxn returns a transaction that creates a node which everyone may change.
func (c *Client) CreateTxn(path, data string, mode jute.CreateMode) *proto.Txn {
	return c.txn(jute.OpCreate, jute.CreateRequest{Path: []byte(path), Data: []byte(data), ACL: jute.OpenACL, Flags: mode}.Append(nil))
}

// SetTxn returns a transaction that sets a node's data.
func (c *Client) SetTxn(path, data string) *proto.Txn {
	return c.txn(jute.OpSetData, jute.SetDataRequest{Path: []byte(path), Data: []byte(data), Version: -1}.Append(nil))
}

// DeleteTxn returns a transaction that deletes a node.
func (c *Client) DeleteTxn(path string) *proto.Txn {
	return c.txn(jute.OpDelete, jute.DeleteRequest{Path: []byte(path), Version: -1}.Append(nil))
}

// SetACLTxn returns a transaction that sets a node's access control list.
func (c *Client) SetACLTxn(path string, list []jute.ACL) *proto.Txn {
	return c.txn(jute.OpSetACL, jute.SetACLRequest{Path: []byte(path), ACL: list, Version: -1}.Append(nil))
}

// Create creates a node, and returns the zxid. So do Set, Delete, Close and Expire for what they do.
func (c *Client) Create(path, data string, mode jute.CreateMode) int64 {
	c.e.t.Helper()
	return c.e.Apply(c.CreateTxn(path, data, mode))
}

// Set sets a node's data.
func (c *Client) Set(path, data string) int64 {
	c.e.t.Helper()
	return c.e.Apply(c.SetTxn(path, data))
}

// Delete deletes a node.
func (c *Client) Delete(path string) int64 {
	c.e.t.Helper()
	return c.e.Apply(c.DeleteTxn(path))
}

// Close ends the session.
func (c *Client) Close() int64 {
	c.e.t.Helper()
	return c.e.Apply(c.txn(jute.OpCloseSession, nil))
}

// Expire ends the session as silent.
func (c *Client) Expire() int64 {
	c.e.t.Helper()
	return c.e.Apply(&proto.Txn{
		Op: int32(jute.OpExpire), Session: int64(c.ID),
		Body: c.e.marshal(&proto.Expire{OwnerIndex: c.e.State.Index(), SilentMs: 10_500}),
	})
}

// Snapshot keeps a snapshot of the present state.
func (e *Ensemble) Snapshot() {
	e.t.Helper()
	var image bytes.Buffer
	e.State.RLock()
	copied := e.State.Snapshot()
	e.State.RUnlock()
	n, err := copied.WriteTo(&image)
	if err != nil {
		e.t.Fatal(err)
	}
	s := past.Snapshot{
		Name: fmt.Sprintf("snapshot-%d", e.State.Index()), Index: e.State.Index(), Term: e.State.Term().Term, Bytes: n,
	}
	e.Kept, e.Images[s.Name] = append(e.Kept, s), image.Bytes()
}

// DropBefore drops all snapshots but the newest, and all entries that are in it.
func (e *Ensemble) DropBefore() {
	e.Kept = e.Kept[len(e.Kept)-1:]
	e.First = e.Kept[0].Index + 1
}

// Snapshots implements past.Chain.
func (e *Ensemble) Snapshots() []past.Snapshot { return e.Kept }

// FirstIndex implements past.Chain.
func (e *Ensemble) FirstIndex() uint64 { return e.First }

// OpenSnapshot implements past.Chain.
func (e *Ensemble) OpenSnapshot(_ context.Context, s past.Snapshot) (io.ReadCloser, error) {
	if e.OpenError != nil {
		if err := e.OpenError(s); err != nil {
			return nil, err
		}
	}
	image, found := e.Images[s.Name]
	if !found {
		return nil, fmt.Errorf("%s: %w", s.Name, fs.ErrNotExist)
	}
	return io.NopCloser(bytes.NewReader(image)), nil
}

// Entries implements past.Chain. The entries' data are copies.
func (e *Ensemble) Entries(ctx context.Context, after uint64) iter.Seq2[past.Entry, error] {
	return func(yield func(past.Entry, error) bool) {
		for i := after; ; i++ {
			for i >= uint64(len(e.Log)) {
				if e.Follow == nil {
					return
				}
				if err := e.Follow(ctx); err != nil {
					yield(past.Entry{}, err)
					return
				}
			}
			next := e.Log[i]
			next.Data = slices.Clone(next.Data)
			if !yield(next, ctx.Err()) || ctx.Err() != nil {
				return
			}
		}
	}
}
