package tap

import "rollcall/zk/jute"

// ParseRequest reads the header and the path of a request that is not the first of its connection. The path of a multi
// is that of its first operation. Requests about identities and of unknown operations have none, and a malformed header
// is zero or incomplete.
func ParseRequest(frame []byte) (header jute.RequestHeader, path string) {
	d := jute.NewDecoder(frame)
	header.Decode(&d)
	if d.Err() != nil {
		return header, ""
	}
	switch header.Op {
	case jute.OpPing, jute.OpCloseSession, jute.OpWhoAmI, jute.OpAuth, jute.OpSASL, jute.OpSetWatches,
		jute.OpSetWatches2, jute.OpReconfig:
		return header, ""
	case jute.OpMulti, jute.OpMultiRead:
		jute.EachMultiOp(d.Rest(), func(op *jute.MultiOp) bool {
			path = string(op.Path())
			return false
		})
		return header, path
	}
	if header.Op.NewRequest() == nil {
		return header, "" // unknown: it may begin with anything
	}
	return header, string(d.ReadBytes()) // every other request begins with its path
}
