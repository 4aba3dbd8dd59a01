package client

import (
	"encoding/binary"
	"runtime"
	"testing"

	"rollcall/zk/jute"
)

// What a list in a reply costs is bounded by the bytes of the reply, also if all of its texts are empty: the names of
// children, alone and in a multi, paths, an ACL and identities.
func TestListsCostTheirBytes(t *testing.T) {
	const count, reads, most = 50_000, 8, 6
	names := emptyEntries(count, lengthSize)
	var multi []byte
	for range reads {
		multi = append(jute.MultiHeader{Type: jute.OpGetChildren}.Append(multi), names...)
	}
	multi = jute.AppendMultiEnd(multi)
	alone := jute.Stat{}.Append(append([]byte(nil), names...))
	for name, tt := range map[string]struct {
		reply []byte
		into  interface{ Decode(d *jute.Decoder) }
	}{
		"alone":      {alone, &childNames{}},
		"in a multi": {multi, &multiReply{most: reads}},
		"cut short":  {names[:len(names)-1], &childNames{}},
		"ephemerals": {names, &ephemeralPaths{}},
		"ACL":        {jute.Stat{}.Append(emptyEntries(count, permissionsSize+2*lengthSize)), &aclReply{}},
		"identities": {emptyEntries(count, 2*lengthSize), &identitiesReply{}},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d := jute.NewDecoder(tt.reply)
		tt.into.Decode(&d)
		runtime.ReadMemStats(&after)
		if (d.Err() != nil) != (name == "cut short") {
			t.Errorf("%s: %v", name, d.Err())
		}
		if cost := after.TotalAlloc - before.TotalAlloc; cost > most*uint64(len(tt.reply)) {
			t.Errorf("%s: a reply of %d bytes costs %d", name, len(tt.reply), cost)
		}
	}
}

// emptyEntries returns a list of entries of so many zero bytes each.
func emptyEntries(count, size int) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(count)), make([]byte, count*size)...)
}
