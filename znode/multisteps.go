package znode

import (
	"bytes"

	"rollcall/zk/jute"
)

// The most expensive operations of a multi that is undone take so many steps, of those that maxFireSteps counts: a step takes 8 ns where
// a check takes 0.6 µs, a write of data 0.9, a create 1.4, and a delete 2.0 with the watches that go with its node (BenchmarkWorst).
const (
	checkSteps   = 80
	setDataSteps = 110
	createSteps  = 170
	deleteSteps  = 250
	// Each identity of the client above freeIdentities, which are in these figures, is compared with a list that may be in no cache: 40 ns.
	// The length of the list matters less, because it has an index.
	identitySteps  = 5
	freeIdentities = 4
	// While there are quotas, each operation but a check looks for one on each level of its path, 0.16 µs, and reads and writes a usage,
	// 1.5 µs.
	quotaSteps = 190
	levelSteps = 20
)

const (
	// MaxMultiSteps limits the operations of a multi to 20,200 deletes, 29,700 creates, 45,900 writes of data or 63,000 checks of a client
	// with up to freeIdentities, without quotas. A request of jute.DefaultMaxBuffer has no room for as many, except for deletes. They take
	// as long, with minFireSteps, as 10,000 deletes with all of maxFireSteps: these were the most expensive multi when none had more than
	// 10,000 operations. A client with 64 identities has 10,700 creates, and one below a quota at five levels 10,900.
	MaxMultiSteps = freeMultiSteps + maxFireSteps - minFireSteps
	// freeMultiSteps, of 7,600 deletes or 24,000 checks, leave maxFireSteps to the watchers. The operations of a longer multi take the rest
	// from them, up to minFireSteps: a hundred thousand events.
	freeMultiSteps = 1_900_000
	minFireSteps   = 1 << 20
)

// MultiOpSteps returns the most that an operation of a multi of a client with so many identities costs apply, in steps of which a multi
// has MaxMultiSteps. The work for its watchers, the levels of its path and what it stores are bounded apart, and that for quotas when it
// is applied.
func MultiOpSteps(op jute.Op, identities int) int {
	steps := identitySteps * max(0, identities-freeIdentities)
	switch {
	case op.IsCreate():
		return steps + createSteps
	case op == jute.OpDelete:
		return steps + deleteSteps
	case op == jute.OpSetData:
		return steps + setDataSteps
	}
	return steps + checkSteps
}

// multiStepsLeft returns how many of MaxMultiSteps the operations of a multi of a client with so many identities leave. Below 0, none of
// them is run. quotas: there are some in the tree.
func multiStepsLeft(ops []jute.MultiOp, identities int, quotas bool) int {
	left := MaxMultiSteps
	for i := range ops {
		op := &ops[i]
		quotas = quotas || bytes.HasPrefix(op.Path(), []byte(quotaPath)) // it may create the first one
		left -= MultiOpSteps(op.Op, identities)
		if quotas && op.Op != jute.OpCheck {
			left -= quotaSteps + levelSteps*bytes.Count(op.Path(), []byte{'/'})
		}
	}
	return left
}
