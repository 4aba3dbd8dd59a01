package server

import "rollcall/jute"

// operation is how the server serves an opcode.
type operation struct {
	class class // set by newOperationTable

	// take takes a request in. It returns false after the last one that the connection takes.
	take func(c *conn, r *request) (more bool)

	// record reads the record of a write, so that no record that cannot be read gets into the log.
	record func(d jute.Decoder) error

	// before queues the events that come before the reply. It is nil if there are none.
	before func(c *conn, r *request) jute.Code

	// answer appends the record of the reply to a request that does not go through the log. If it
	// returns an error, the bytes that it appended are void. It is nil if the reply is only a
	// header. The caller holds the lock and the tree's lock.
	answer func(c *conn, b []byte, r *request) ([]byte, jute.Code)

	// failed appends the record of an answer with an error. It is nil if such an answer is only a header.
	failed func(b []byte) []byte

	// weigh returns about how many bytes the answer will have. It is nil if they are few. The
	// caller holds the tree's lock.
	weigh func(c *conn, r *request) int64

	// aside reports whether a read that waited for a write is answered by another goroutine than
	// apply, because it may take long. It is nil if that is never so. The caller holds the tree's
	// lock.
	aside func(c *conn, r *request) bool

	// long reports whether a read must be answered without the tree's lock, because it takes long. freeze takes a copy of what
	// the answer shows, in constant time, and returns a function that appends the record. Both are nil if no such read
	// takes long. The caller holds the lock and the tree's lock, and calls write without them.
	long   func(c *conn, r *request) bool
	freeze func(c *conn, r *request) (write func(b []byte) ([]byte, jute.Code))

	// result appends the record of a write that succeeded, alone or in a multi. It is nil if
	// the reply is a header.
	result func(b []byte, path string, stat *jute.Stat) []byte
}

// operations returns the table of the opcodes that the server serves. It is a function and not a
// variable, because the functions in the table refer to it.
func operations() map[jute.Op]operation {
	return map[jute.Op]operation{
		jute.OpCreate:          {take: (*conn).write, record: readCreate, result: pathResult},
		jute.OpCreate2:         {take: (*conn).write, record: readCreate, result: nodeResult},
		jute.OpCreateContainer: {take: (*conn).write, record: readCreate, result: nodeResult},
		jute.OpCreateTTL:       {take: (*conn).write, record: readCreateTTL, result: nodeResult},
		jute.OpDelete:          {take: (*conn).write, record: readDelete},
		jute.OpSetData:         {take: (*conn).write, record: readSetData, result: statResult},
		jute.OpSetACL:          {take: (*conn).write, record: readSetACL, result: statResult},
		jute.OpReconfig:        {take: (*conn).reconfig, record: readReconfig}, // see settle.go
		jute.OpMulti:           {take: (*conn).multi},                          // see appendMulti
		jute.OpCloseSession:    {take: (*conn).closeSession},
		jute.OpSync:            {take: (*conn).sync}, // see appendSync

		jute.OpExists:               {take: (*conn).look, answer: (*conn).exists},
		jute.OpGetData:              {take: (*conn).look, answer: (*conn).getData, weigh: (*conn).weighData},
		jute.OpGetACL:               {take: (*conn).look, answer: (*conn).getACL, weigh: (*conn).weighUnknown, aside: always},
		jute.OpGetChildren:          {take: (*conn).look, answer: (*conn).getChildren, weigh: (*conn).weighChildren, aside: (*conn).manyChildren, long: longChildren, freeze: freezeChildren},
		jute.OpGetChildren2:         {take: (*conn).look, answer: (*conn).getChildren, weigh: (*conn).weighChildren, aside: (*conn).manyChildren, long: longChildren, freeze: freezeChildren},
		jute.OpMultiRead:            {take: (*conn).lookAtMany, answer: (*conn).multiRead, weigh: (*conn).weighUnknown, aside: always, long: longMultiRead, freeze: freezeMultiRead},
		jute.OpGetEphemerals:        {take: (*conn).look, answer: (*conn).getEphemerals, weigh: (*conn).weighUnknown, aside: always, long: longEphemerals, freeze: freezeEphemerals},
		jute.OpGetAllChildrenNumber: {take: (*conn).look, answer: (*conn).getAllChildrenNumber, aside: always},

		jute.OpSetWatches:    {take: (*conn).setAgain, before: (*conn).setWatches, weigh: (*conn).weighPaths, aside: (*conn).manyPaths},
		jute.OpSetWatches2:   {take: (*conn).setAgain, before: (*conn).setWatches, weigh: (*conn).weighPaths, aside: (*conn).manyPaths},
		jute.OpAddWatch:      {take: (*conn).local, answer: (*conn).addWatch},
		jute.OpCheckWatches:  {take: (*conn).local, answer: (*conn).checkWatches},
		jute.OpRemoveWatches: {take: (*conn).local, answer: (*conn).removeWatches},

		jute.OpPing:   {take: (*conn).local},
		jute.OpWhoAmI: {take: (*conn).local, answer: (*conn).whoAmI},
		jute.OpAuth:   {take: (*conn).auth},
		jute.OpSASL:   {take: (*conn).sasl, answer: (*conn).nextToken, failed: noToken},
	}
}

// The opcodes that clients send lie between these two.
const (
	leastOp    = jute.OpCloseSession
	greatestOp = jute.OpWhoAmI
)

// operationTable finds an operation by its opcode, at op - leastOp. Its last element is for all
// other opcodes.
type operationTable [greatestOp - leastOp + 2]operation

func newOperationTable() *operationTable {
	t := new(operationTable)
	for i := range t {
		t[i].take = (*conn).unknown
	}
	for op, how := range operations() {
		how.class = classOf(op)
		t[op-leastOp] = how
	}
	return t
}

// of returns how an opcode is served. It never returns nil: an opcode that no client may send has
// unknown.
func (t *operationTable) of(op jute.Op) *operation {
	if op < leastOp || op > greatestOp {
		return &t[len(t)-1]
	}
	return &t[op-leastOp]
}

// The read functions read the record of a write. They take the decoder by value and call no
// interface, so that they allocate only lists.

func readCreate(d jute.Decoder) error {
	var r jute.CreateRequest
	r.Decode(&d)
	return d.Err()
}

func readCreateTTL(d jute.Decoder) error {
	var r jute.CreateTTLRequest
	r.Decode(&d)
	return d.Err()
}

func readDelete(d jute.Decoder) error {
	var r jute.DeleteRequest
	r.Decode(&d)
	return d.Err()
}

func readSetData(d jute.Decoder) error {
	var r jute.SetDataRequest
	r.Decode(&d)
	return d.Err()
}

func readSetACL(d jute.Decoder) error {
	var r jute.SetACLRequest
	r.Decode(&d)
	return d.Err()
}

func readReconfig(d jute.Decoder) error {
	var r jute.ReconfigRequest
	r.Decode(&d)
	return d.Err()
}

// childWeight is the assumed length of a name in a list of children, in bytes.
const childWeight = 32

func (c *conn) weighData(r *request) int64 {
	d := jute.NewDecoder(r.body)
	var req jute.GetDataRequest
	req.Decode(&d)
	data, _ := c.srv.cfg.State.Weight(req.Path)
	return int64(data)
}

func (c *conn) weighChildren(r *request) int64 {
	d := jute.NewDecoder(r.body)
	var req jute.GetChildrenRequest
	req.Decode(&d)
	_, children := c.srv.cfg.State.Weight(req.Path)
	return int64(children) * childWeight
}

// weighUnknown is for an answer whose length one node does not show: it returns the longest frame.
func (c *conn) weighUnknown(*request) int64 { return int64(c.srv.cfg.Limits.MaxBuffer) }

// weighPaths counts the events of all paths in the request.
func (c *conn) weighPaths(r *request) int64 { return int64(len(r.body)) }

const (
	// briefChildren is how many names apply lists itself, which takes a few microseconds.
	briefChildren = 128
	// briefWatches is how long a setWatches may be, in bytes, if it is served at once and not in parts: some
	// 100 paths. Apply may serve it itself.
	briefWatches = 4 << 10
)

func (c *conn) manyChildren(r *request) bool {
	return c.weighChildren(r) > briefChildren*childWeight
}

func (c *conn) manyPaths(r *request) bool { return len(r.body) > briefWatches }

func always(*conn, *request) bool { return true }
