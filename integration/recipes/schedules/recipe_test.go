package schedules

import (
	"time"

	"rollcall/lab/checker"
)

// recipe is a recipe under test.
type recipe struct {
	name     string
	subjects []string // its rights, queues, counters and so on: see checker.Event
	limit    int      // see checker.History.Limits
	rounds   int      // that a client plays while there are faults
	wakesOne bool     // each release wakes one client that waits
	patient  bool     // no client gives up by itself
	keeps    bool     // it has ephemeral nodes in the end

	prepare func(w *world) error       // nil: nothing is to prepare
	play    func(a *actor, final bool) // one round of a client; the final one is without faults, and must succeed
	finish  func(w *world) error       // reads the end; nil: nothing is to read
	removed error                      // the reason of its errors if an operator has deleted the node of a client that waits; nil: none
}

type event = checker.Event

// patience is the time that a client waits for a right, unless it wants to give up early. It is longer than a schedule.
const patience = scheduleEnd

// hurry is the longest time after which an impatient client gives up.
const hurry = 2 * time.Second
