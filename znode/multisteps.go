package znode

import "rollcall/zk/jute"

// The most expensive operations of a multi that is undone take so many steps, of those that maxFireSteps counts: a step takes 8 ns where
// a check takes 0.6 µs, a write of data 0.9, a create 1.4, and a delete 2.0 with the watches that go with its node (BenchmarkWorst).
const (
	checkSteps   = 80
	setDataSteps = 110
	createSteps  = 170
	deleteSteps  = 250
)

const (
	// MaxMultiSteps limits the operations of a multi to 20,200 deletes, 29,700 creates, 45,900 writes of data or 63,000 checks. A request
	// of jute.DefaultMaxBuffer has no room for as many, except for deletes. They take as long, with minFireSteps, as 10,000 deletes with
	// all of maxFireSteps: these were the most expensive multi when none had more than 10,000 operations.
	MaxMultiSteps = freeMultiSteps + maxFireSteps - minFireSteps
	// freeMultiSteps, of 7,600 deletes or 24,000 checks, leave maxFireSteps to the watchers. The operations of a longer multi take the rest
	// from them, up to minFireSteps: a hundred thousand events.
	freeMultiSteps = 1_900_000
	minFireSteps   = 1 << 20
)

// MultiOpSteps returns the most that an operation of a multi costs apply, in steps of which a multi has MaxMultiSteps. The work for its
// watchers, the levels of its path and what it stores are bounded apart.
func MultiOpSteps(op jute.Op) int {
	switch {
	case op.IsCreate():
		return createSteps
	case op == jute.OpDelete:
		return deleteSteps
	case op == jute.OpSetData:
		return setDataSteps
	}
	return checkSteps
}
