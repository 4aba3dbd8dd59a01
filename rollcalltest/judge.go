package rollcalltest

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"rollcall/zk/jute"
)

// maxPlannedFaults limits the faults that wait for their request. A test that plans more has an error in a loop.
const maxPlannedFaults = 1000

var errManyFaults = fmt.Errorf("rollcalltest: %d faults wait for their requests already", maxPlannedFaults)

// judge decides on the fate of each request. It is safe for concurrent use.
type judge struct {
	turn sync.Mutex // held while a request is judged, and by no method that a hook may call

	mu        sync.Mutex
	number    int
	inSession map[int64]int // of each session with requests that was not closed by its client
	planned   []*plannedFault
	hooks     map[int]func(Request) Verdict // by server; 0: of all
}

// plannedFault is a fault that concerns the request after a number of others.
type plannedFault struct {
	server  int   // 0: any
	session int64 // 0: any
	left    int   // requests until then, including that one
	verdict Verdict
}

// addFault adds a fault.
func (j *judge) addFault(f plannedFault) error {
	if f.left < 1 {
		return fmt.Errorf("rollcalltest: n is %d, but must be at least 1: the next request", f.left)
	}
	if f.verdict.Delay < 0 {
		return errors.New("rollcalltest: the delay of a reply must not be negative")
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.planned) >= maxPlannedFaults {
		return errManyFaults
	}
	j.planned = append(j.planned, &f)
	return nil
}

// setHook makes hook the one of a server, or of all if server is 0. If hook is nil, there is none.
func (j *judge) setHook(server int, hook func(Request) Verdict) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.hooks[server] = hook
}

// decide numbers a request and returns its verdict. It calls the hooks, one at a time, in the order of the numbers.
func (j *judge) decide(r Request) Verdict {
	j.turn.Lock()
	defer j.turn.Unlock()
	verdict, hooks := j.countRequest(&r)
	for _, hook := range hooks {
		if hook != nil {
			verdict = verdict.combine(hook(r))
		}
	}
	if r.Op == jute.OpCloseSession.String() && !verdict.LoseRequest {
		j.mu.Lock()
		defer j.mu.Unlock()
		delete(j.inSession, r.Session)
	}
	return verdict
}

// countRequest numbers a request, and returns what the planned faults do to it, and the hooks to call.
func (j *judge) countRequest(r *Request) (verdict Verdict, hooks []func(Request) Verdict) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.number++
	r.Number = j.number
	hooks = []func(Request) Verdict{j.hooks[r.Server], j.hooks[0]}
	if r.Op == OpConnect || r.Op == jute.OpPing.String() {
		return Verdict{}, hooks
	}
	j.inSession[r.Session]++
	r.InSession = j.inSession[r.Session]
	for _, f := range j.planned {
		if (f.server == 0 || f.server == r.Server) && (f.session == 0 || f.session == r.Session) {
			if f.left--; f.left == 0 {
				verdict = verdict.combine(f.verdict)
			}
		}
	}
	j.planned = slices.DeleteFunc(j.planned, func(f *plannedFault) bool { return f.left == 0 })
	return verdict, hooks
}
