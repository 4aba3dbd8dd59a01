package schedules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// faultKind is the kind of a fault.
type faultKind string

// These are all kinds. Each one happens at a request of a client.
const (
	loseRequest   faultKind = "lose-request"    // the connection breaks before the request is carried out
	loseReply     faultKind = "lose-reply"      // it breaks in place of the reply
	loseAndExpire faultKind = "lose-and-expire" // it breaks in place of the reply, and the session ends
	loseAndGiveUp faultKind = "lose-and-give-up"
	delayReply    faultKind = "delay-reply"     // the reply comes late, and everything after it
	delayRequest  faultKind = "delay-request"   // the request comes late, and everything after it
	lateDelete    faultKind = "late-and-delete" // it comes late, and an operator deletes a node of the recipe meanwhile
	pauseClient   faultKind = "pause"           // the client does nothing, as a process that is stopped; its clock goes on
	suspendClient faultKind = "suspend"         // its clock steps forward: a suspend during which its timers stood still
	slowReader    faultKind = "slow-reader"     // the client reads nothing
	giveUp        faultKind = "give-up"         // the context of the client's wait ends
	expireSession faultKind = "expire"          // an operator ends the session
	deleteNode    faultKind = "delete-node"     // an operator deletes an ephemeral node of the recipe
	killLeader    faultKind = "kill-leader"     // the server that leads, or is alone, crashes and comes back
	pauseServer   faultKind = "pause-server"
	dropAll       faultKind = "drop-all" // the connections of all clients break
)

// faultKinds are all kinds.
var faultKinds = []faultKind{
	loseRequest, loseReply, loseAndExpire, loseAndGiveUp, delayReply, delayRequest, lateDelete, pauseClient, suspendClient, slowReader, giveUp,
	expireSession, deleteNode, killLeader, pauseServer, dropAll,
}

// takesTime reports whether faults of the kind have a length.
func (k faultKind) takesTime() bool {
	switch k {
	case delayReply, delayRequest, pauseClient, suspendClient, slowReader, killLeader, pauseServer:
		return true
	}
	return false
}

// fault is a fault at a request of a client.
type fault struct {
	client  int // from 1
	request int // from 1
	kind    faultKind
	length  time.Duration // of those that take time
}

func (f fault) String() string {
	return fmt.Sprintf("client %d request %d %s %v", f.client, f.request, f.kind, f.length)
}

// plan is the faults of a schedule.
type plan []fault

func (p plan) String() string {
	lines := make([]string, len(p))
	for i, f := range p {
		lines[i] = "  " + f.String()
	}
	return strings.Join(lines, "\n")
}

// hasKind reports whether the plan has a fault of one of the kinds.
func (p plan) hasKind(kinds ...faultKind) bool {
	return slices.ContainsFunc(p, func(f fault) bool { return slices.Contains(kinds, f.kind) })
}

// These are the sizes of a random plan.
const (
	mostFaults  = 4
	lastRequest = 40                     // faults happen at earlier requests of a client
	shortest    = 100 * time.Millisecond // of a fault that takes time
	longest     = 2 * sessionTimeout
)

// randomPlan draws the faults of a schedule.
func randomPlan(rng *rand.Rand, clients int) plan {
	p := make(plan, 1+rng.IntN(mostFaults))
	for i := range p {
		p[i] = fault{
			client: 1 + rng.IntN(clients), request: 1 + rng.IntN(1+rng.IntN(lastRequest)),
			kind:   faultKinds[rng.IntN(len(faultKinds))],
			length: (shortest + time.Duration(rng.Int64N(int64(longest-shortest)))).Round(time.Millisecond),
		}
	}
	return p
}
