// Package trials holds tests alone: a file in the data folder of a member that is down is damaged,
// and the member is started. It must serve with all that was acknowledged, or refuse to start and
// name the file and the way out. It must never serve with less, hang, or end with a stack trace.
//
// Each trial is drawn from a seed, which a failure prints: ROLLCALL_TRIAL repeats it alone.
// ROLLCALL_TRIALS is how many there are. The binary is the product's but for constants that make
// snapshots many and the log short; see process.BuildHurried.
package trials
