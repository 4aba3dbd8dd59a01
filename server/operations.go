package server

import (
	"rollcall/server/stream"
	"rollcall/zk/jute"
)

type operation struct {
	class requestClass // set by newOperationTable

	// handle takes a request in. It returns false after the last one that the connection takes.
	handle func(r *request) (more bool)

	// decodeRecord checks that the record of a write can be decoded, before it enters the log.
	decodeRecord func(d jute.Decoder) error

	// queueEventsBefore queues the events that come before the reply, if there are any.
	queueEventsBefore func(r *request) jute.Code

	// appendRecord appends the reply's record to out, for a request that does not go through the log. If it
	// returns an error, the appended bytes are void. It is nil if the reply is only a header. The caller
	// holds the lock and the tree's.
	appendRecord func(s *session, out *stream.Buffer, r *request) jute.Code

	// appendErrorRecord appends the record of a reply with an error. It is nil if such a reply is only a
	// header.
	appendErrorRecord func(b []byte) []byte

	// estimateReplyBytes estimates the bytes of the reply. It is nil if they are few. The caller holds the tree's
	// lock.
	estimateReplyBytes func(s *session, r *request) int64

	// tooSlowForApply reports whether a read that waited for a write may take too long for apply to serve it. It is
	// nil if that never happens. The caller holds the tree's lock.
	tooSlowForApply func(s *session, r *request) bool

	// needsFrozenCopy reports whether a read takes too long for the tree's lock. freezeReply then copies the state in
	// constant time. The caller holds the lock and the tree's. Before that, estimateSteps estimates the steps of such
	// a read, and rejects it if its reply would be too long. The caller holds no lock. All three are nil if no such
	// read takes long.
	needsFrozenCopy func(s *session, r *request) bool
	estimateSteps   func(s *session, r *request) (int, jute.Code)
	freezeReply     func(s *session, r *request) frozenReply

	// appendResult appends the record of a write that succeeded, alone or in a multi. It is nil if the reply
	// is only a header.
	appendResult func(b []byte, path string, stat *jute.Stat) []byte
}

// frozenReply appends the record of a reply from a copy of the state. The caller holds no lock.
type frozenReply func(b []byte, p *pacer) ([]byte, jute.Code)

// operations returns the table of the served opcodes. It is no variable, because the functions in the table
// refer to it.
func operations() map[jute.Op]operation {
	return map[jute.Op]operation{
		jute.OpCreate:          {handle: (*request).handleWrite, decodeRecord: decodeCreate, appendResult: appendPath},
		jute.OpCreate2:         {handle: (*request).handleWrite, decodeRecord: decodeCreate, appendResult: appendNode},
		jute.OpCreateContainer: {handle: (*request).handleWrite, decodeRecord: decodeCreate, appendResult: appendNode},
		jute.OpCreateTTL:       {handle: (*request).handleWrite, decodeRecord: decodeCreateTTL, appendResult: appendNode},
		jute.OpDelete:          {handle: (*request).handleWrite, decodeRecord: decodeDelete},
		jute.OpSetData:         {handle: (*request).handleWrite, decodeRecord: decodeSetData, appendResult: appendStat},
		jute.OpSetACL:          {handle: (*request).handleWrite, decodeRecord: decodeSetACL, appendResult: appendStat},
		jute.OpReconfig:        {handle: (*request).handleWrite, decodeRecord: decodeReconfig}, // see reconfig.go
		// Apply checks whether a multi can be decoded, because one that cannot takes a zxid, too. See also appendMulti.
		jute.OpMulti:        {handle: (*request).submitWithinLimits},
		jute.OpCloseSession: {handle: (*request).handleCloseSession},
		jute.OpSync:         {handle: (*request).handleSync}, // see appendSync

		jute.OpExists: {handle: (*request).handleRead, appendRecord: (*session).exists},
		jute.OpGetData: {
			handle: (*request).handleRead, appendRecord: (*session).getData,
			estimateReplyBytes: (*session).estimateDataBytes,
		},
		jute.OpGetACL: {
			handle: (*request).handleRead, appendRecord: (*session).getACL,
			estimateReplyBytes: (*session).maxReplyBytes, tooSlowForApply: alwaysSlow,
		},
		jute.OpGetChildren: {
			handle: (*request).handleRead, appendRecord: (*session).getChildren,
			estimateReplyBytes: (*session).estimateChildrenBytes, tooSlowForApply: (*session).manyChildren,
			needsFrozenCopy: (*session).longChildren,
			estimateSteps:   (*session).stepsOfChildren,
			freezeReply:     (*session).freezeChildren,
		},
		jute.OpGetChildren2: {
			handle: (*request).handleRead, appendRecord: (*session).getChildren,
			estimateReplyBytes: (*session).estimateChildrenBytes, tooSlowForApply: (*session).manyChildren,
			needsFrozenCopy: (*session).longChildren,
			estimateSteps:   (*session).stepsOfChildren,
			freezeReply:     (*session).freezeChildren,
		},
		jute.OpMultiRead: {
			handle: (*request).handleMultiRead, appendRecord: (*session).multiRead,
			estimateReplyBytes: (*session).maxReplyBytes, tooSlowForApply: alwaysSlow, needsFrozenCopy: (*session).longMultiRead,
			estimateSteps: (*session).stepsOfMultiRead, freezeReply: (*session).freezeMultiRead,
		},
		jute.OpGetEphemerals: {
			handle: (*request).handleRead, appendRecord: (*session).getEphemerals,
			estimateReplyBytes: (*session).maxReplyBytes, tooSlowForApply: alwaysSlow,
			needsFrozenCopy: (*session).longEphemerals,
			estimateSteps:   (*session).stepsOfEphemerals,
			freezeReply:     (*session).freezeEphemerals,
		},
		jute.OpGetAllChildrenNumber: {
			handle: (*request).handleRead, appendRecord: (*session).getAllChildrenNumber,
			tooSlowForApply: alwaysSlow,
		},

		jute.OpSetWatches: {
			handle: (*request).handleSetWatches, queueEventsBefore: (*request).setWatches,
			estimateReplyBytes: (*session).estimateEventBytes, tooSlowForApply: (*session).manyPaths,
		},
		jute.OpSetWatches2: {
			handle: (*request).handleSetWatches, queueEventsBefore: (*request).setWatches,
			estimateReplyBytes: (*session).estimateEventBytes, tooSlowForApply: (*session).manyPaths,
		},
		jute.OpAddWatch:      {handle: (*request).replyLocally, appendRecord: (*session).addWatch},
		jute.OpCheckWatches:  {handle: (*request).replyLocally, appendRecord: (*session).checkWatches},
		jute.OpRemoveWatches: {handle: (*request).replyLocally, appendRecord: (*session).removeWatches},

		jute.OpPing:   {handle: (*request).replyLocally},
		jute.OpWhoAmI: {handle: (*request).replyLocally, appendRecord: (*session).whoAmI},
		jute.OpAuth:   {handle: (*request).handleAuth},
		jute.OpSASL:   {handle: (*request).handleSASL, appendRecord: appendToken, appendErrorRecord: appendNoToken},
	}
}

// The opcodes that clients send lie between these two.
const (
	minOp = jute.OpCloseSession
	maxOp = jute.OpWhoAmI
)

// operationTable has the operation of an opcode at op - minOp. Its last element is for all other opcodes.
type operationTable [maxOp - minOp + 2]operation

func newOperationTable() *operationTable {
	t := new(operationTable)
	for i := range t {
		t[i].handle = (*request).handleUnknown
	}
	for op, how := range operations() {
		how.class = classOf(op)
		t[op-minOp] = how
	}
	return t
}

// of returns the operation of an opcode. For an unknown opcode that is one with handleUnknown.
func (t *operationTable) of(op jute.Op) *operation {
	if op < minOp || op > maxOp {
		return &t[len(t)-1]
	}
	return &t[op-minOp]
}

// The decode functions take the decoder by value and call no interface, so that they allocate only lists.

func decodeCreate(d jute.Decoder) error {
	var r jute.CreateRequest
	r.Decode(&d)
	return d.Err()
}

func decodeCreateTTL(d jute.Decoder) error {
	var r jute.CreateTTLRequest
	r.Decode(&d)
	return d.Err()
}

func decodeDelete(d jute.Decoder) error {
	var r jute.DeleteRequest
	r.Decode(&d)
	return d.Err()
}

func decodeSetData(d jute.Decoder) error {
	var r jute.SetDataRequest
	r.Decode(&d)
	return d.Err()
}

func decodeSetACL(d jute.Decoder) error {
	var r jute.SetACLRequest
	r.Decode(&d)
	return d.Err()
}

func decodeReconfig(d jute.Decoder) error {
	var r jute.ReconfigRequest
	r.Decode(&d)
	return d.Err()
}
