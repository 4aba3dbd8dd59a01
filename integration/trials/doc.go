// Package trials holds only tests. A file in the data directory of a member that is down is damaged,
// and the member is started. It must serve everything that was acknowledged, or refuse to start
// with a message that names the file and what to do. It must never serve less, hang, or end with a
// stack trace.
//
// Each trial is drawn from a seed, which a failure prints. ROLLCALL_TRIAL repeats that trial alone,
// and ROLLCALL_TRIALS is how many there are. The binary is the product's, with constants that make
// snapshots frequent and the log short; see process.BuildHurried.
package trials
