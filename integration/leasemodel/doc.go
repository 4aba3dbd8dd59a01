// Package leasemodel searches all states of a small ensemble whose members read locally by leases: three voters and an observer,
// elections, restarts, disks that write later, changes of membership, and leases that end by clocks. What a server
// has applied is shown. A read that lacks what was shown before it began is a fault, and so are two servers that have applied
// different entries. It shares no code with the members.
// docs/dev/leases.md describes the protocol and what the model has shown. Rules turns single rules of the protocol off: without its
// rule, each fault is found.
//
// Clocks are no numbers here. A lease is as long as the time that a leader waits before it goes without its holder, by a
// bound on how fast clocks run, and begins when its holder sends the request for it. So if a leader has waited, each lease whose
// request was sent before the wait began has ended. That is all that the protocol uses of clocks.
package leasemodel
