// Package admin is what an operator sees of a member: so far the four-letter words that
// ZooKeeper's servers answer on the client port. It changes nothing, keeps no state of
// its own, and asks the rest of the member for figures through functions it is given.
package admin

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// InterfaceLevel is the release of ZooKeeper whose behaviour clients and tools find here.
// Version texts begin with it: parsers take the first three numbers as ZooKeeper's.
const InterfaceLevel = "3.9.5"

// Stats are the figures of one member that words show.
type Stats struct {
	Received, Sent uint64 // packets
	Connections    int
	Outstanding    int // requests
	MinLatency     time.Duration
	AvgLatency     time.Duration
	MaxLatency     time.Duration
	Zxid           int64  // last applied
	Role           string // "leader", "follower", "standalone"; "": not serving
	Nodes          int    // in the tree, the root among them
	Proposals      Sizes  // shown by a leader
}

// Sizes are sizes in bytes, all -1 before the first.
type Sizes struct{ Last, Min, Max int }

// WordsConfig is what Words are built from. A field without a default is required.
type WordsConfig struct {
	Whitelist []string  // words that are answered, or "*" for all; blanks around them do not count; srvr always is one
	Version   string    // of this program, letters, digits, dots and dashes
	Built     time.Time // when this program was built
	Stats     func() Stats
}

// Words answers four-letter words. Safe for concurrent use.
type Words struct {
	all     bool
	allowed []string
	version string
	stats   func() Stats
}

// known are all words of ZooKeeper: of any other the first four bytes are the length of a
// frame.
var known = []string{
	"conf", "cons", "crst", "dirs", "dump", "envi", "gtmk", "hash", "isro", "mntr",
	"ruok", "srst", "srvr", "stat", "stmk", "wchc", "wchp", "wchs",
}

// programVersion is what go-zookeeper's parser of srvr takes.
var programVersion = regexp.MustCompile(`^[A-Za-z0-9.-]+$`)

// NewWords checks cfg.
func NewWords(cfg WordsConfig) (*Words, error) {
	switch {
	case cfg.Stats == nil:
		return nil, errors.New("admin: Stats is required")
	case !programVersion.MatchString(cfg.Version):
		return nil, fmt.Errorf("admin: version %q has other characters than letters, digits, dots and dashes", cfg.Version)
	}
	w := &Words{allowed: []string{"srvr"}, version: VersionText(cfg.Version, cfg.Built), stats: cfg.Stats}
	for _, word := range cfg.Whitelist {
		word = strings.TrimSpace(word)
		w.all = w.all || word == "*"
		w.allowed = append(w.allowed, word)
	}
	return w, nil
}

// VersionText is the version as words show it. The date has the form that ZooKeeper had
// until 3.6: go-zookeeper reads no other, and nobody minds it.
func VersionText(version string, built time.Time) string {
	return InterfaceLevel + "-rollcall-" + version + ", built on " + built.UTC().Format("01/02/2006 15:04 MST")
}

// Answer returns what to send for a word before closing the connection. ok is false if it
// is no word.
func (w *Words) Answer(word string) (answer []byte, ok bool) {
	switch {
	case !slices.Contains(known, word):
		return nil, false
	case !w.all && !slices.Contains(w.allowed, word):
		return []byte(word + " is not executed because it is not in the whitelist.\n"), true
	}
	return []byte(w.text(word)), true
}

func (w *Words) text(word string) string {
	switch word {
	case "ruok":
		return "imok" // also while not serving
	case "srvr":
		stats := w.stats()
		if stats.Role == "" {
			return notServing
		}
		return w.srvr(&stats)
	}
	return word + " is not served by this version.\n"
}

const notServing = "This ZooKeeper instance is not currently serving requests\n"

func (w *Words) srvr(s *Stats) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Zookeeper version: %s\n", w.version)
	fmt.Fprintf(&b, "Latency min/avg/max: %d/%s/%d\n", s.MinLatency.Milliseconds(), decimal(s.AvgLatency), s.MaxLatency.Milliseconds())
	fmt.Fprintf(&b, "Received: %d\n", s.Received)
	fmt.Fprintf(&b, "Sent: %d\n", s.Sent)
	fmt.Fprintf(&b, "Connections: %d\n", s.Connections)
	fmt.Fprintf(&b, "Outstanding: %d\n", s.Outstanding)
	fmt.Fprintf(&b, "Zxid: 0x%x\n", uint64(s.Zxid))
	fmt.Fprintf(&b, "Mode: %s\n", s.Role)
	fmt.Fprintf(&b, "Node count: %d\n", s.Nodes+1) // ZooKeeper counts the root twice
	if s.Role == "leader" {
		fmt.Fprintf(&b, "Proposal sizes last/min/max: %d/%d/%d\n", s.Proposals.Last, s.Proposals.Min, s.Proposals.Max)
	}
	return b.String()
}

// decimal prints milliseconds with one to four decimals.
func decimal(d time.Duration) string {
	text := strconv.FormatFloat(math.Round(float64(d)/float64(time.Millisecond)*1e4)/1e4, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
