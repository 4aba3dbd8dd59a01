// Package trouble measures how long the clients of a member wait when that member is in trouble, and how long the clients of the others
// do. Each row of the table in docs/sessions.md is a test. The members are processes, each with a network and a disk of its own. The same
// faults are played on ZooKeeper, to compare.
package trouble
