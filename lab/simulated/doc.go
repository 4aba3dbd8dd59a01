// Package simulated has the machines on which a test runs members in one process: their network, disks and clocks,
// in memory, with faults. Everything here works on real time and in a testing/synctest bubble.
//
//   - Network: connections between hosts, and their faults. A Host is the view of one run of a member.
//   - Disk: the stores of one member, and their faults.
//   - Monotonic: the clock by which a member counts timeouts.
//
// A member with these parts is real otherwise: raft, gRPC and the member itself are those of a server.
package simulated
