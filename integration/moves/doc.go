// Package moves takes the data of one ensemble to another: from ZooKeeper to Rollcall and back. Its tests
// run Debian's ZooKeeper 3.8, Debian's kazoo and the real binary as processes. An ensemble of
// ZooKeeper and the ensemble of Rollcall that follows it have the same zoo.cfg, directories and ports.
package moves
