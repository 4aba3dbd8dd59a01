// Package target controls the members of an ensemble that is drilled: it kills, stops, starts and cuts them off, and
// repairs what it broke. Everything that it breaks is written into a journal first, so that a later process can repair
// it (Heal).
package target

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Kind is a kind of fault.
type Kind string

// The faults, each with the one that ends it.
const (
	Kill  Kind = "kill"  // SIGKILL; ended by Start
	Stop  Kind = "stop"  // SIGSTOP; ended by Cont
	Cut   Kind = "cut"   // from other members, and from clients if Fault.Client; ended by Heal
	Slow  Kind = "slow"  // Delay, Loss and Rate on its links; ended by Heal
	Disk  Kind = "disk"  // stalls or fails; ended by Heal
	Fill  Kind = "fill"  // its disk is full; ended by Heal
	Clock Kind = "clock" // steps by Delay; ended by Heal
	Wipe  Kind = "wipe"  // kill, and its data is removed; ended by Start
	Shut  Kind = "shut"  // SIGTERM, and it has ended; ended by Start
	// Forget loses all packets of the member's present connections with other members, and with clients if
	// Fault.Client. Neither end notices, and new connections work. Ended by Heal.
	Forget Kind = "forget"

	Start Kind = "start"
	Cont  Kind = "cont"
	Heal  Kind = "heal"
)

// What operators do to an ensemble on purpose, by the commands that the docs name. Each is one more Kind of Fault.
const (
	Upgrade Kind = "upgrade" // SIGTERM, and it starts again with the other binary; ended by Rollback
	Add     Kind = "add"     // a new member comes in, by a command on this member's machine; ended by its removal
	Replace Kind = "replace" // a new member takes its place; ended by one with its name that takes that one's place
	Secret  Kind = "secret"  // its file has both secrets, or the new one alone: see Mode; not undone
	Keys    Kind = "keys"    // its certificates are replaced: see Mode; not undone
	Backup  Kind = "backup"  // it writes the state into File; ended by the removal of that
	MoveIn  Kind = "move-in" // Rollcall takes the place of ZooKeeper, at all members; not undone

	Rollback Kind = "rollback"
)

// The modes of Secret and Keys, in the order in which a rotation has them. All members have one before the next begins.
const (
	Both = "both" // the former secret and the new one; certificates of both authorities are believed
	Own  = "own"  // Keys: it shows a certificate of the new authority
	New  = "new"  // the new secret alone; certificates of the new authority alone are believed
)

// The modes of Disk.
const (
	Stall = "stall" // writes and fsync do not return
	Fail  = "fail"  // reads and writes return an error, so the member ends
)

// The ports of a Cut.
const (
	ClientPort = "clients"
	PeerPorts  = "peers"
)

// Fault is a fault to be made.
type Fault struct {
	Kind   Kind          `json:"kind"`
	Member string        `json:"member"`
	From   []string      `json:"from,omitempty"`   // Cut: from these members; nil: from all others. Slow: Loss of their packets alone
	OneWay bool          `json:"oneWay,omitempty"` // Cut: only what the member sends is lost
	Client bool          `json:"client,omitempty"` // Cut, Forget: from clients too
	Port   string        `json:"port,omitempty"`   // Cut: only ClientPort or PeerPorts; "": all
	Delay  time.Duration `json:"delay,omitempty"`  // Slow: of each packet, each way; Clock: the step
	Loss   float64       `json:"loss,omitempty"`   // Slow: of 1, each way
	Rate   int           `json:"rate,omitempty"`   // Slow: bytes per second, each way; 0: no limit
	Mode   string        `json:"mode,omitempty"`   // Disk: Stall or Fail; Secret, Keys: Both, Own or New
	File   string        `json:"file,omitempty"`   // Backup: the path of a new file
}

// String returns the fault in words: "kill of member 2".
func (f Fault) String() string {
	var more []string
	add := func(is bool, format string, args ...any) {
		if is {
			more = append(more, fmt.Sprintf(format, args...))
		}
	}
	add(f.From != nil, "from %s", strings.Join(f.From, ", "))
	add(f.OneWay, "one way")
	add(f.Client, "clients too")
	add(f.Port != "", "port of %s", f.Port)
	add(f.Delay != 0, "by %v", f.Delay)
	add(f.Loss != 0, "loss of %g %%", 100*f.Loss)
	add(f.Rate != 0, "%d bytes/s", f.Rate)
	add(f.Mode != "", "%s", f.Mode)
	text := fmt.Sprintf("%s of member %s", f.Kind, f.Member)
	if len(more) > 0 {
		text += " (" + strings.Join(more, ", ") + ")"
	}
	return text
}

// Member is one server of an ensemble.
type Member struct {
	Name    string // "1"
	Clients string // its address for clients; "" if clients cannot connect
	Secure  string // its address for clients over TLS; "": none that is known
	Admin   string // URL of Rollcall's HTTP API; "": it has none that is known
	Token   string // for reads from Admin; "": none
}

// Target is an ensemble whose members can be broken. Its calls run one at a time.
type Target interface {
	Kind() string // "processes", "namespaces", "hooks"
	Members() []Member
	// Can returns nil if it can make the fault and repair it, and otherwise why it cannot, in words for the user.
	Can(f Fault) error
	// Break makes the fault. It has written the fault into the journal before. It returns when the fault is there. If it
	// returns an error, a part of the fault may be there, which Repair and Heal end.
	Break(ctx context.Context, f Fault) error
	// Repair ends one fault that Break made, and then takes it out of the journal. A member that was down has been
	// started, and need not serve yet: see AwaitHealthy.
	Repair(ctx context.Context, f Fault) error
	// Heal ends all faults that Break made, the last one first, and continues after an error. It is called after Ctrl-C
	// too, and then with a context of its own. What it could not repair stays in the journal.
	Heal(ctx context.Context) error
	// Close heals, and ends an ensemble that it started itself. It does not close the journal.
	Close(ctx context.Context) error
}
