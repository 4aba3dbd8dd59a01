// Package drill breaks an ensemble on purpose while clients use it, and finds out whether it kept its promises. The
// catalogue has the drills (All). A Runner runs them, one at a time: it checks that the ensemble is well, starts the
// clients of package load, runs the drill's steps on a target, waits until the ensemble is well again, and has package
// judge judge what the clients saw.
//
// # Safety
//
// Whatever ends a run, a Runner heals what it broke. Package target writes each fault down before it makes it, so
// that after a crash another process can heal (Heal). The clients stay below a chroot of their own, and only one
// Runner at a time drills an ensemble, by a lock in its tree.
package drill

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"rollcall/lab/target"
)

// Drill is one exercise.
type Drill struct {
	Name  string // "leader-kill"
	Title string // "The leader is killed"
	Does  string // what it breaks, for people, as one sentence
	// Needs are the faults that the target must be able to make, without the names of members.
	Needs []target.Fault
	Tier  Tier
	// own is an ensemble that the drill starts for itself and its clients; nil: it drills that of the run.
	own *target.ProcessConfig
	// beside says that it starts an ensemble beside the one that its clients use.
	beside bool
	// The steps take lasts session timeouts, and extra on top.
	lasts float64
	extra time.Duration
	run   func(*stage) error
}

// Tier is the command that runs a drill, besides its own name.
type Tier int

const (
	// Common drills are part of `drill all`.
	Common Tier = iota
	// Heavy drills take minutes, or gigabytes of memory, and are part of `drill full` alone.
	Heavy
)

// Lasts returns about how long the drill takes with sessions of a timeout, without the wait for a well ensemble.
func (d *Drill) Lasts(sessionTimeout time.Duration) time.Duration {
	return settleTime + time.Duration(d.lasts*float64(sessionTimeout)) + d.extra + settleTime
}

// Requirements returns the names of what the drill needs: kinds of faults, and "own" if it starts an ensemble itself.
func (d *Drill) Requirements() []string {
	all := []string{}
	for _, f := range d.Needs {
		all = append(all, string(f.Kind))
	}
	if d.startsOwn() {
		all = append(all, "own")
	}
	return all
}

func (d *Drill) startsOwn() bool { return d.own != nil || d.beside }

// Fits returns nil if all that the drill needs is there, and otherwise what is missing. A target that has no members of
// its own to break fits the drills that need nothing.
func (d *Drill) Fits(c Config) error {
	if d.startsOwn() && c.Own == nil {
		return errors.New("it starts members of Rollcall beside those of the run: leave out --hosts, --hooks and --software")
	}
	if d.own != nil {
		if d.own.Program == target.ZooKeeper {
			return target.CheckZooKeeper()
		}
		return nil
	}
	members := memberNames(c.Target)
	for _, need := range d.Needs {
		need.Member = members[0]
		if len(need.From) > 0 {
			need.From = members[len(members)-1:]
		}
		if err := c.Target.Can(need); err != nil {
			return fmt.Errorf("it needs %q: %w", need.Kind, err)
		}
	}
	return nil
}

// MinTimeout and MaxTimeout limit the timeout of the drills' sessions: below, a busy laptop ends sessions by itself, and
// above, a drill takes minutes.
const (
	MinTimeout = 2 * time.Second
	MaxTimeout = 40 * time.Second
)

// Select returns the drills of the names, in the order of the catalogue. "all" is all common ones, and "full" are
// all. Its error names the closest drill.
func Select(names []string) ([]*Drill, error) {
	var chosen []*Drill
	for _, name := range names {
		if name != "all" && name != "full" && findDrill(name) == nil {
			return nil, fmt.Errorf("there is no drill %.40q: the drills are %s, all and full", name, strings.Join(Names(), ", "))
		}
	}
	for _, d := range All() {
		if slices.Contains(names, d.Name) || slices.Contains(names, "full") || slices.Contains(names, "all") && d.Tier == Common {
			chosen = append(chosen, d)
		}
	}
	return chosen, nil
}

// Names returns the names of all drills.
func Names() (names []string) {
	for _, d := range All() {
		names = append(names, d.Name)
	}
	return names
}

func findDrill(name string) *Drill {
	if i := slices.IndexFunc(All(), func(d *Drill) bool { return d.Name == name }); i >= 0 {
		return All()[i]
	}
	return nil
}
