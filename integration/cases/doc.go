// Package cases holds the numbered conformance cases of ZooKeeper's session protocol,
// one row each, over the raw wire: what a client sends, byte for byte where that matters,
// and exactly what it gets and when. The members run in process on virtual time, alone
// and as three, and every case is tried at each member where it makes sense.
//
// A row marked differs is one in which Rollcall does otherwise than ZooKeeper, on
// purpose; it tests what Rollcall does.
package cases
