// Package proto is the language between members: the gRPC services Follower (served
// by every member, called by whoever leads) and Leader (served by every member,
// answered while it leads), and Entry, the format of the replicated log.
//
// rollcall.proto is the contract, and says units and meanings; the rest of the folder
// is generated from it by `make proto`. There is no logic here.
//
// # Compatibility
//
// What is in a log must stay readable: a field keeps its number and its meaning for
// ever, and a number that is given up is reserved. A change that an older member would
// apply differently raises Entry.format, and is used once all members have announced it.
package proto
