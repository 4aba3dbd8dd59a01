// Package kills holds only tests. Processes of three members are killed by SIGKILL, at any instant
// and in the middle of snapshots, while sessions write, and are started again. After each kill
// everything that was acknowledged is there, once and in order. The members are equal, node by node
// and session by session, both as their clients see them and in their data directories.
//
// In ensembles that grow and shrink, members also lose their disks, but never those of a majority.
//
// A single member with an audit log is killed in the same way, and its audit log is read.
//
// The binary is the product's, with constants that make snapshots frequent and the log before them
// short; see process.BuildHurried.
package kills
