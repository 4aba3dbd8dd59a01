// Package proto is the language between members. It has two gRPC services, Follower and Leader, and
// Entry, the format of the replicated log. Every member serves both services: the leader calls
// Follower, and only the member that leads replies to calls of Leader.
//
// rollcall.proto is the contract, with units and meanings. `make proto` generates the rest of the
// directory from it. The package has no logic, except for a second codec of the two messages that have every write.
//
// # Compatibility
//
// From 0.1.0 on, every log must stay readable. A field keeps its number and its meaning for ever, and a number
// that is given up is reserved. A change that an older member would apply differently raises
// Entry.Format, and is used once all members have announced that format.
package proto
