package proto

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Every integer that another member sends is a number of a kind below, and every list has a limit. The codec checks both
// before it decodes a message, so before anything is allocated for it, a lock is taken, or anything is added to a number.
// TestEveryNumberHasABound fails for a field without a row. A fixed64 or sfixed64 is an id, a nonce or a digest, which is
// compared only; it has no bound. Requests of raft are checked by package wire.
const (
	// maxPosition bounds terms, indexes and what is counted since a process or an ensemble began: a million in a second make as
	// many in 140,000 years. The sum of two of them, or of one and any number of bytes, fits a uint64.
	maxPosition = 1 << 62
	// maxMember is serverlist.MaxID.
	maxMember = 255
	// maxMillis and maxMicros bound durations by what fits a time.Duration.
	maxMillis = math.MaxInt64 / 1_000_000
	maxMicros = math.MaxInt64 / 1_000
	// maxNanos bounds times of a monotonic clock, 36 years. The sum of some of them fits an int64.
	maxNanos = 1 << 60
	// maxClock bounds wall clocks, in milliseconds since 1970: some 9,000 years, and the zero time.Time.
	maxClock = 1 << 48
	// maxTimeout bounds timeouts of sessions, in milliseconds: ZooKeeper's protocol has an int32.
	maxTimeout = math.MaxInt32
	// maxPage bounds the rows of a page and their number in a request: view.MaxRows, and as much again.
	maxPage = 2000
	// anyUint32 and anyInt are for numbers that are shown, compared or clamped only, and for unknown enums.
	anyUint32 = math.MaxUint32
	anyInt    = 1 << 63
)

// numberBounds has the bound of each integer, by message and field. A negative number is bounded by its absolute value.
var numberBounds = map[protoreflect.FullName]uint64{
	"HelloRequest.member": maxMember, "HelloReply.member": maxMember, "HelloReply.format": anyUint32,
	"HelloReply.last_index": maxPosition, "HelloReply.last_term": maxPosition,
	"ServerList.version": anyInt, "ConfiguredServer.member": maxMember,

	"Ping.term": maxPosition, "Ping.leader": maxMember, "Ping.number": maxPosition, "Ping.proof": maxPosition,
	"Ack.through": maxPosition, "Ack.commit": maxPosition,
	"Verdict.index": maxPosition, "Verdict.agree": maxMember, "Verdict.members": maxMember,
	"Pong.number": maxPosition, "Pong.proof": maxPosition, "Pong.applied": maxPosition, "Pong.clock_ms": maxClock,
	"StateHashes.version": anyUint32, "StateHashes.indexes": maxPosition,
	"Batch.number": maxPosition, "Batch.age_us": maxMicros, "Batch.timeouts_ms": maxTimeout, "Batch.after_ms": anyUint32,
	"LostMembers.term": maxPosition, "LostMembers.order": maxPosition, "LostMember.member": maxMember, "LostMember.silent_ms": anyUint32,
	"LostMember.through": maxPosition, "LostMember.ended_through": maxPosition, "LostMember.ended_silent_ms": anyUint32,
	"Silences.silent_ms": anyUint32, "Silences.gap_ms": anyUint32,

	"Forwarded.member": maxMember, "Txn.member": maxMember, "Txn.seq": maxPosition, "Txn.op": anyUint32,
	"Txn.reachable_servers": maxMember, "Txn.acl_bytes": maxACLBytes,
	"SyncRequest.member": maxMember, "SyncRequest.lease_request": maxPosition, "SyncRequest.returned_lease": maxPosition,
	"SyncReply.index": maxPosition, "SyncReply.lease_us": maxMicros, "SyncReply.lease_index": maxPosition, "HandOverRequest.target": maxMember,
	"DrainRequest.over_ms": maxMillis, "DrainReply.connections": maxPosition,
	"RebalanceRequest.connections": maxPosition, "RebalanceRequest.over_ms": maxMillis, "RebalanceReply.connections": maxPosition,

	"MemberStatus.member": maxMember, "MemberStatus.term": maxPosition, "MemberStatus.leader": maxMember,
	"MemberStatus.applied": maxPosition, "MemberStatus.committed": maxPosition, "MemberStatus.zxid": anyInt,
	"MemberStatus.sessions": anyUint32, "MemberStatus.connections": anyUint32, "MemberStatus.watches": anyUint32,
	"MemberStatus.data_bytes": maxPosition, "MemberStatus.log_bytes": maxPosition, "MemberStatus.snapshot_index": maxPosition,
	"MemberStatus.snapshot_ms": maxClock, "MemberStatus.started_ms": maxClock, "MemberStatus.clock_ms": maxClock,
	"MemberStatus.data_free": anyInt, "MemberStatus.log_free": anyInt, "MemberStatus.data_quota": anyInt,
	"MemberStatus.data_used": anyInt, "MemberStatus.memory_limit": anyInt, "MemberStatus.memory_used": anyInt,

	"ViewSessions.limit": maxPage, "ViewSessions.member": maxMember, "SessionRow.member": maxMember,
	"SessionRow.timeout_ms": maxTimeout, "SessionRow.created_ms": maxClock, "SessionRow.ephemerals": anyUint32,
	"FactRow.watches": anyUint32, "FactRow.heard_ms": maxMillis, "FactRow.left_ms": maxMillis,
	"ViewConnections.first": maxPosition, "ViewConnections.limit": maxPage, "ConnectionRows.next": maxPosition,
	"ConnectionRow.number": maxPosition, "ConnectionRow.queued": anyUint32, "ConnectionRow.received": maxPosition,
	"ConnectionRow.sent": maxPosition, "ConnectionRow.timeout_ms": maxTimeout, "ConnectionRow.established_ms": maxClock,
	"ConnectionRow.replies": maxPosition, "ConnectionRow.op": anyUint32, "ConnectionRow.xid": anyUint32,
	"ConnectionRow.zxid": anyInt, "ConnectionRow.replied_us": maxMicros, "ConnectionRow.last_us": maxMicros,
	"ConnectionRow.min_us": maxMicros, "ConnectionRow.avg_us": maxMicros, "ConnectionRow.max_us": maxMicros,
	"ConnectionRow.expires_ms": maxClock, "ConnectionRow.recent_requests": maxPosition,
	"ConnectionRow.recent_bytes": maxPosition, "ConnectionRow.recent_ms": anyUint32,
	"ViewWatches.first": maxPosition, "ViewWatches.limit": maxPage, "WatchRow.connection": maxPosition, "WatchRows.next": maxPosition,
	"OwnerRow.kind": anyUint32, "OwnerRow.ephemerals": anyUint32, "ChildRow.member": maxMember, "ViewEphemerals.limit": maxPage,
	"ViewRemovals.zxid": anyInt, "ViewRemovals.part": anyUint32, "ViewRemovals.limit": maxPage,
	"RemovalRow.zxid": anyInt, "RemovalRow.part": anyUint32, "RemovalRow.removed_ms": maxClock, "RemovalRow.cause": anyUint32,
	"RemovalRow.member": maxMember, "RemovalRows.next_zxid": anyInt, "RemovalRows.next_part": anyUint32,
	"ViewBuckets.limit": maxPage, "BucketRows.tick_ms": maxTimeout, "BucketRows.clock_ms": maxClock,
	"BucketRow.due_ms": maxClock, "BucketRow.sessions": anyUint32, "BucketRows.later": anyUint32,

	"ViewTimes.indexes": maxPosition, "TimeRows.clock": maxNanos, "TimeRow.index": maxPosition, "TimeRow.sealed": maxNanos,
	"TimeRow.received": maxNanos, "TimeRow.durable": maxNanos, "TimeRow.committed": maxNanos,
	"TimeRow.apply_begun": maxNanos, "TimeRow.locked": maxNanos, "TimeRow.applied": maxNanos,
	"MemberDelay.member": maxMember, "MemberDelay.micros": anyUint32,
	"CauseRow.cause": anyUint32, "CauseRow.from": maxNanos, "CauseRow.to": maxNanos,
	"ViewSlow.number": maxPosition, "ViewSlow.before": maxPosition, "ViewSlow.limit": maxPage,
	"SlowRows.next": maxPosition, "SlowRows.not_kept": maxPosition,
	"SlowRow.number": maxPosition, "SlowRow.received_ms": maxClock, "SlowRow.xid": anyUint32, "SlowRow.index": maxPosition,
	"SlowRow.total_us": maxMicros, "SlowRow.missing": maxMember, "SlowRow.error_us": maxMicros, "SlowRow.connections": maxPosition,
	"StageRow.kind": maxMember, "StageRow.member": maxMember, "StageRow.to": maxMember, "StageRow.took_us": maxMicros,
	"StageRow.entry": maxPosition, "StageRow.of_us": maxMicros,
	"SlowCauseRow.cause": anyUint32, "SlowCauseRow.member": maxMember, "SlowCauseRow.took_us": maxMicros,
}

const (
	// maxACLBytes bounds what a client's write stores: a few times the longest message between members.
	maxACLBytes = 1 << 28
	// maxTxns bounds the transactions of a message. A follower sends at most 512 (follower.maxMessageTxns).
	maxTxns = 4096
	// maxIdentities bounds the identities of a transaction: server.Limits.MaxIdentities, and as many again for those of later
	// versions.
	maxIdentities = 128
	// maxParts bounds the batches of a message: sessiontracker.maxBatches, and as many again.
	maxParts = 128
	// maxTouches bounds the sessions in a part of a pong or an acknowledgement: follower.touchesPerPong and leader.maxRefused,
	// and some more. maxSyncs bounds those whose clients wait for a sync, one for each connection of a member.
	maxTouches = 1 << 17
	maxSyncs   = 1 << 20
	// maxHashes is leader.maxStateHashes.
	maxHashes = 64
	// maxServers bounds a list of servers: those of the list, twice, during a change.
	maxServers = 2 * maxMember
	// maxSlowParts bounds what is known about one slow request: stages.MaxCauses, as the largest of them.
	maxSlowParts = 256
)

// listBounds has the greatest length of each list, by message and field.
var listBounds = map[protoreflect.FullName]int{
	"ServerList.servers": maxServers, "Configuration.servers": maxServers,
	"Ack.refused": maxTouches, "Pong.batches": maxParts, "Batch.sessions": maxTouches, "Batch.timeouts_ms": maxTouches, "Batch.after_ms": maxTouches,
	"LostMembers.members": maxMember,
	"Silences.sessions":   maxTouches, "Silences.silent_ms": maxTouches, "Silences.gap_ms": maxTouches,
	"StateHashes.indexes": maxHashes, "StateHashes.digests": maxHashes,
	"Forwarded.txns": maxTxns, "Txn.ids": maxIdentities, "Txn.reachable_servers": maxMember,
	"SyncRequest.sessions": maxSyncs, "SyncReply.ending": maxSyncs,
	"SessionRows.rows": maxPage, "ViewFacts.ids": maxPage, "FactRows.rows": maxPage, "ConnectionRows.rows": maxPage,
	"WatchRows.rows": maxPage, "OwnerRow.children": maxPage, "EphemeralRows.paths": maxPage, "RemovalRows.rows": maxPage,
	"BucketRows.rows": maxPage, "SlowRows.rows": maxPage,
	"ViewTimes.indexes": maxHashes, "TimeRows.rows": 2 * maxHashes, "TimeRows.causes": maxSlowParts,
	"TimeRow.arrivals": maxMember, "TimeRow.acks": maxMember,
	"SlowRow.stages": maxSlowParts, "SlowRow.missing": maxServers, "SlowRow.causes": maxSlowParts,
}

var errMalformed = errors.New("proto: the message is malformed")

// fieldBound is the bound of one field.
type fieldBound struct {
	name     protoreflect.FullName
	kind     protoreflect.Kind
	most     uint64        // of an integer
	mostOf   int           // length of a list; 0: it is none
	messages *messageBound // of a message or a list of messages
}

// maxFields is above the numbers of the fields in rollcall.proto.
const maxFields = 64

// messageBound has the bounds of a message's fields, by number. Those without a field are nil.
type messageBound [maxFields]*fieldBound

// boundsByName returns the bounds of the messages of the services. They are made when first used: the descriptors are not
// ready before.
var boundsByName = sync.OnceValue(newMessageBounds)

func newMessageBounds() map[protoreflect.FullName]*messageBound {
	all := map[protoreflect.FullName]*messageBound{}
	for _, m := range messagesOfServices() {
		addMessageBound(all, m)
	}
	return all
}

// messagesOfServices returns the messages that members send to each other.
func messagesOfServices() (all []protoreflect.MessageDescriptor) {
	services := File_rollcall_proto.Services()
	for i := range services.Len() {
		methods := services.Get(i).Methods()
		for j := range methods.Len() {
			all = append(all, methods.Get(j).Input(), methods.Get(j).Output())
		}
	}
	return all
}

func addMessageBound(all map[protoreflect.FullName]*messageBound, m protoreflect.MessageDescriptor) *messageBound {
	if known := all[m.FullName()]; known != nil {
		return known
	}
	bound := &messageBound{}
	all[m.FullName()] = bound
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		name := protoreflect.FullName(m.Name()).Append(f.Name())
		field := &fieldBound{name: name, kind: f.Kind(), most: numberBounds[name], mostOf: listBounds[name]}
		if f.Kind() == protoreflect.MessageKind {
			field.messages = addMessageBound(all, f.Message())
		}
		bound[f.Number()] = field
	}
	return bound
}

// check returns an error for an encoded message with a number above its bound or a list that is too long. Unknown fields are
// left to protobuf.
func (m *messageBound) check(data []byte) error {
	var lengths [maxFields]int
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return errMalformed
		}
		size := protowire.ConsumeFieldValue(number, wire, data[n:])
		if size < 0 {
			return errMalformed
		}
		value := data[n : n+size]
		data = data[n+size:]
		if number >= maxFields || m[number] == nil {
			continue
		}
		field := m[number]
		elements, err := field.check(wire, value)
		if err != nil {
			return err
		}
		if lengths[number] += elements; field.mostOf > 0 && lengths[number] > field.mostOf {
			return fmt.Errorf("proto: %s has more than %d elements, which no member sends", field.name, field.mostOf)
		}
	}
	return nil
}

// check checks the value of a field, and returns the number of elements that it adds to a list.
func (f *fieldBound) check(wire protowire.Type, value []byte) (elements int, err error) {
	if wire != protowire.BytesType {
		number, _ := protowire.ConsumeVarint(value)
		return 1, f.checkNumber(wire, number)
	}
	inner, _ := protowire.ConsumeBytes(value)
	switch f.kind {
	case protoreflect.MessageKind:
		return 1, f.messages.check(inner)
	case protoreflect.BytesKind, protoreflect.StringKind:
		return 1, nil
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		return len(inner) / protowire.SizeFixed64(), nil
	}
	for len(inner) > 0 { // a packed list of integers
		number, n := protowire.ConsumeVarint(inner)
		if n < 0 {
			return elements, errMalformed
		}
		if err := f.checkNumber(protowire.VarintType, number); err != nil {
			return elements, err
		}
		inner, elements = inner[n:], elements+1
	}
	return elements, nil
}

// checkNumber checks an integer as it is encoded.
func (f *fieldBound) checkNumber(wire protowire.Type, encoded uint64) error {
	size := encoded
	switch f.kind {
	case protoreflect.Sint32Kind, protoreflect.Sint64Kind:
		size = absolute(protowire.DecodeZigZag(encoded))
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		size = absolute(int64(encoded))
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.EnumKind:
	default:
		return nil
	}
	if wire == protowire.VarintType && size > f.most {
		return fmt.Errorf("proto: %s is %d, and must be at most %d", f.name, size, f.most)
	}
	return nil
}

func absolute(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}
