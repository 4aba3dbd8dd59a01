// Package cases holds the numbered conformance cases of ZooKeeper's session protocol. Each case has
// one row. It is played over the raw wire: a case says what a client sends, byte for byte where
// that matters, and exactly what it gets and when. The members run in this process on virtual time,
// as a single member and as three. Every case is tried at each member where that makes sense.
//
// A row with the field differs tests something that Rollcall does differently from ZooKeeper on
// purpose; it checks Rollcall's behaviour.
package cases
