// Package kills holds tests alone: processes of three members are killed by SIGKILL, at
// any instant and in the middle of snapshots, while sessions write; and started again.
// After each kill all that was acknowledged is there, once and in order, and members
// are equal node by node and session by session: as clients of each see them, and in what
// lies in their data folders.
//
// The binary is the product's but for constants that make snapshots many and the log
// behind them short; see process.BuildHurried.
package kills
