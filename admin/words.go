// Package admin is what an operator sees of a member: so far the four-letter words that
// ZooKeeper's servers answer on the client port. It changes nothing but counters, and asks
// the rest of the member for figures and lists through a Source.
//
//   - Words: who may ask what, and the short answers.
//   - table: all figures, which mntr prints.
//   - lists: what grows with connections, sessions and watches; it is written as it is
//     read, and one such answer is made at a time where it has to be sorted first.
package admin

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// InterfaceLevel is the release of ZooKeeper whose behaviour clients and tools find here.
// Version texts begin with it: parsers take the first three numbers as ZooKeeper's.
const InterfaceLevel = "3.9.5"

// WordsConfig is what Words are built from. A field without a default is required.
type WordsConfig struct {
	Whitelist []string  // words that are answered, or "*" for all; blanks around them do not count; srvr always is one
	Version   string    // of this program, letters, digits, dots and dashes
	Built     time.Time // date of the commit that this program was built from
	Source    Source
}

// Words answers four-letter words. Safe for concurrent use.
type Words struct {
	all     bool
	allowed []string
	version string
	source  Source
	mask    atomic.Int64  // trace mask: kept, and nothing is traced
	listing chan struct{} // holds the one place of who makes a long answer in memory
}

// defaultMask is the trace mask that ZooKeeper begins with.
const defaultMask = 306

// word is how a word is answered.
type word struct {
	// answer writes the answer. stats are filled in only if the word needs a member that
	// serves, and then by one that does.
	answer  func(w *Words, p *page, s *Stats, argument io.Reader)
	serving bool // only by a member that serves
}

// words are all words of ZooKeeper: of any other the first four bytes are the length of a
// frame.
var words = map[string]word{
	"conf": {(*Words).conf, true},
	"cons": {(*Words).cons, true},
	"crst": {(*Words).crst, true},
	"dirs": {(*Words).dirs, true},
	"dump": {(*Words).dump, true},
	"envi": {(*Words).envi, false},
	"gtmk": {(*Words).gtmk, false},
	"hash": {(*Words).hash, true},
	"isro": {(*Words).isro, false},
	"mntr": {(*Words).mntr, true},
	"ruok": {(*Words).ruok, false},
	"srst": {(*Words).srst, true},
	"srvr": {(*Words).srvr, true},
	"stat": {(*Words).stat, true},
	"stmk": {(*Words).stmk, false},
	"wchc": {(*Words).wchc, true},
	"wchp": {(*Words).wchp, true},
	"wchs": {(*Words).wchs, true},
}

// programVersion is what go-zookeeper's parser of srvr takes.
var programVersion = regexp.MustCompile(`^[A-Za-z0-9.-]+$`)

// NewWords checks cfg.
func NewWords(cfg WordsConfig) (*Words, error) {
	switch {
	case cfg.Source == nil:
		return nil, errors.New("admin: Source is required")
	case !programVersion.MatchString(cfg.Version):
		return nil, fmt.Errorf("admin: version %q has other characters than letters, digits, dots and dashes", cfg.Version)
	}
	w := &Words{
		allowed: []string{"srvr"}, version: VersionText(cfg.Version, cfg.Built),
		source: cfg.Source, listing: make(chan struct{}, 1),
	}
	w.mask.Store(defaultMask)
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

// Known reports whether the first four bytes of a connection are a word.
func (w *Words) Known(name string) bool {
	_, known := words[name]
	return known
}

const notServing = "This ZooKeeper instance is not currently serving requests\n"

// Answer writes what to send for a word before closing the connection. argument is what
// the client sends behind the word. It may wait for both, and for whoever makes another
// long answer, and ends with their error. Nothing is written for what is no word.
func (w *Words) Answer(name string, argument io.Reader, out io.Writer) error {
	p := &page{w: out}
	word, known := words[name]
	switch {
	case !known:
	case !w.all && !slices.Contains(w.allowed, name):
		p.printf("%s is not executed because it is not in the whitelist.\n", name)
	case !word.serving:
		word.answer(w, p, nil, argument)
	default:
		stats := w.source.Stats()
		if stats.Role == "" {
			p.printf(notServing)
			break
		}
		word.answer(w, p, &stats, argument)
	}
	return p.err
}

// page is an answer that is being written. Behind an error it takes no more.
type page struct {
	w   io.Writer
	err error
}

func (p *page) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

func (w *Words) ruok(p *page, _ *Stats, _ io.Reader) { p.printf("imok") }

// isro tells whether writes are taken; without a leader nobody knows.
func (w *Words) isro(p *page, _ *Stats, _ io.Reader) {
	if s := w.source.Stats(); s.Role == "" {
		p.printf("null")
		return
	}
	p.printf("rw")
}

func (w *Words) gtmk(p *page, _ *Stats, _ io.Reader) { p.printf("%d", w.mask.Load()) }

// stmk has the new mask behind it, eight bytes.
func (w *Words) stmk(p *page, _ *Stats, argument io.Reader) {
	var mask [8]byte
	if _, p.err = io.ReadFull(argument, mask[:]); p.err != nil {
		return
	}
	w.mask.Store(int64(binary.BigEndian.Uint64(mask[:])))
	p.printf("%d", w.mask.Load())
}

func (w *Words) crst(p *page, _ *Stats, _ io.Reader) {
	w.source.ResetConnections()
	p.printf("Connection stats reset.\n")
}

func (w *Words) srst(p *page, _ *Stats, _ io.Reader) {
	w.source.ResetStats()
	p.printf("Server stats reset.\n")
}

// hash lists digests of the tree. Members compute none.
func (w *Words) hash(*page, *Stats, io.Reader) {}

func (w *Words) dirs(p *page, _ *Stats, _ io.Reader) {
	data, log, err := w.source.DiskUsage()
	if err != nil {
		p.printf("the data folder cannot be read: %v\n", err)
		return
	}
	p.printf("datadir_size: %d\nlogdir_size: %d\n", data, log)
}

func (w *Words) conf(p *page, _ *Stats, _ io.Reader) {
	data, log, err := w.source.DiskUsage()
	if err != nil {
		p.printf("the data folder cannot be read: %v\n", err)
		return
	}
	lines, members := w.source.Settings(data, log)
	for _, line := range lines {
		p.printf("%s=%s\n", line.Name, line.Value)
	}
	if members != "" {
		p.printf("membership: \n%s", strings.TrimSuffix(members, "\n"))
	}
}

func (w *Words) srvr(p *page, s *Stats, _ io.Reader) {
	p.printf("Zookeeper version: %s\n", w.version)
	figures(p, s)
}

// stat is srvr with the connections behind the version.
func (w *Words) stat(p *page, s *Stats, _ io.Reader) {
	p.printf("Zookeeper version: %s\nClients:\n", w.version)
	for c := range w.source.Connections() {
		if p.printf(" %s)\n", brief(&c)); p.err != nil {
			return
		}
	}
	p.printf("\n")
	figures(p, s)
}

func figures(p *page, s *Stats) {
	p.printf("Latency min/avg/max: %d/%s/%d\n", s.Latency.Min.Milliseconds(), number(ms(s.Latency.Avg), true), s.Latency.Max.Milliseconds())
	p.printf("Received: %d\n", s.Received)
	p.printf("Sent: %d\n", s.Sent)
	p.printf("Connections: %d\n", s.Connections)
	p.printf("Outstanding: %d\n", s.Outstanding)
	p.printf("Zxid: 0x%x\n", uint64(s.Zxid))
	p.printf("Mode: %s\n", s.Role)
	p.printf("Node count: %d\n", s.Nodes+1) // ZooKeeper counts the root twice
	if s.Role == "leader" {
		p.printf("Proposal sizes last/min/max: %d/%d/%d\n", s.Proposals.Last, s.Proposals.Min, s.Proposals.Max)
	}
}
