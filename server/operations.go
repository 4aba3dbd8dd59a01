package server

import (
	"rollcall/server/stream"
	"rollcall/zk/jute"
)

// operation describes the handling of an opcode.
type operation struct {
	class class // set by newOperationTable

	// take takes a request in. It returns false after the last one that the connection takes.
	take func(r *request) (more bool)

	// record reads the record of a write, so that no record that cannot be read gets into the log.
	record func(d jute.Decoder) error

	// before queues the events that come before the reply. It is nil if there are none.
	before func(r *request) jute.Code

	// answer appends the record of the reply to a request that does not go through the log, to out. If it
	// returns an error, the bytes that it appended are void. It is nil if the reply is only a
	// header. The caller holds the lock and the tree's lock.
	answer func(s *session, out *stream.Buffer, r *request) jute.Code

	// failed appends the record of an answer with an error. It is nil if such an answer is only a header.
	failed func(b []byte) []byte

	// weigh returns about how many bytes the answer will have. It is nil if they are few. The
	// caller holds the tree's lock.
	weigh func(s *session, r *request) int64

	// aside reports whether a read that waited for a write is answered by another goroutine than
	// apply, because it may take long. It is nil if that is never so. The caller holds the tree's
	// lock.
	aside func(s *session, r *request) bool

	// long reports whether a read must be answered without the tree's lock, because it takes long. freeze takes a copy of what
	// the answer shows, in constant time, and returns a function that appends the record. Both are nil if no such read
	// takes long. The caller holds the lock and the tree's lock, and calls write without them.
	long   func(s *session, r *request) bool
	freeze func(s *session, r *request) (write func(b []byte) ([]byte, jute.Code))

	// result appends the record of a write that succeeded, alone or in a multi. It is nil if
	// the reply is a header.
	result func(b []byte, path string, stat *jute.Stat) []byte
}

// operations returns the table of the opcodes that the server serves. It is a function and not a
// variable, because the functions in the table refer to it.
func operations() map[jute.Op]operation {
	return map[jute.Op]operation{
		jute.OpCreate:          {take: (*request).write, record: readCreate, result: pathResult},
		jute.OpCreate2:         {take: (*request).write, record: readCreate, result: nodeResult},
		jute.OpCreateContainer: {take: (*request).write, record: readCreate, result: nodeResult},
		jute.OpCreateTTL:       {take: (*request).write, record: readCreateTTL, result: nodeResult},
		jute.OpDelete:          {take: (*request).write, record: readDelete},
		jute.OpSetData:         {take: (*request).write, record: readSetData, result: statResult},
		jute.OpSetACL:          {take: (*request).write, record: readSetACL, result: statResult},
		jute.OpReconfig:        {take: (*request).reconfig, record: readReconfig}, // see reconfig.go
		jute.OpMulti:           {take: (*request).multi},                          // see appendMulti
		jute.OpCloseSession:    {take: (*request).closeSession},
		jute.OpSync:            {take: (*request).sync}, // see appendSync

		jute.OpExists:               {take: (*request).look, answer: (*session).exists},
		jute.OpGetData:              {take: (*request).look, answer: (*session).getData, weigh: (*session).weighData},
		jute.OpGetACL:               {take: (*request).look, answer: (*session).getACL, weigh: (*session).weighUnknown, aside: always},
		jute.OpGetChildren:          {take: (*request).look, answer: (*session).getChildren, weigh: (*session).weighChildren, aside: (*session).manyChildren, long: (*session).longChildren, freeze: (*session).freezeChildren},
		jute.OpGetChildren2:         {take: (*request).look, answer: (*session).getChildren, weigh: (*session).weighChildren, aside: (*session).manyChildren, long: (*session).longChildren, freeze: (*session).freezeChildren},
		jute.OpMultiRead:            {take: (*request).takeMultiRead, answer: (*session).multiRead, weigh: (*session).weighUnknown, aside: always, long: (*session).longMultiRead, freeze: (*session).freezeMultiRead},
		jute.OpGetEphemerals:        {take: (*request).look, answer: (*session).getEphemerals, weigh: (*session).weighUnknown, aside: always, long: (*session).longEphemerals, freeze: (*session).freezeEphemerals},
		jute.OpGetAllChildrenNumber: {take: (*request).look, answer: (*session).getAllChildrenNumber, aside: always},

		jute.OpSetWatches:    {take: (*request).takeSetWatches, before: (*request).setWatches, weigh: (*session).weighPaths, aside: (*session).manyPaths},
		jute.OpSetWatches2:   {take: (*request).takeSetWatches, before: (*request).setWatches, weigh: (*session).weighPaths, aside: (*session).manyPaths},
		jute.OpAddWatch:      {take: (*request).local, answer: (*session).addWatch},
		jute.OpCheckWatches:  {take: (*request).local, answer: (*session).checkWatches},
		jute.OpRemoveWatches: {take: (*request).local, answer: (*session).removeWatches},

		jute.OpPing:   {take: (*request).local},
		jute.OpWhoAmI: {take: (*request).local, answer: (*session).whoAmI},
		jute.OpAuth:   {take: (*request).auth},
		jute.OpSASL:   {take: (*request).sasl, answer: nextToken, failed: noToken},
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
		t[i].take = (*request).unknown
	}
	for op, how := range operations() {
		how.class = classOf(op)
		t[op-leastOp] = how
	}
	return t
}

// of returns the operation of an opcode. It never returns nil: an opcode that no client may send has
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
