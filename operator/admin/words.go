// Package admin serves the operators of a member: the four-letter commands of ZooKeeper's servers
// on the client port, and HTTP. It gets metrics and lists from the rest of the member through a
// Source, and has the member carry out changes through Operations. It changes nothing by itself but counters.
//
//   - Words has the whitelist, and the short answers.
//   - HTTP serves the table that HTTP.routes returns. The class of a row decides who may use it. A type for each
//     family has the rows and the handlers: healthProbes, memberAPI, ensembleAPI, eventStreams, membersAPI, nodesAPI, copies,
//     and adminServer, which has the commands of ZooKeeper's AdminServer.
//   - table has all metrics, which mntr prints and collector hands to Prometheus.
//   - lists.go has the answers that grow with connections, sessions and watches. They are written
//     while the lists are read. An answer that must be sorted first is made one at a time.
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

	"rollcall/operator/api"
)

// InterfaceLevel is the release of ZooKeeper whose behaviour this server offers to clients and
// tools. Version texts begin with it, because parsers take the first three numbers for ZooKeeper's
// version.
const InterfaceLevel = "3.9.5"

// WordsConfig configures Words. A field without a default is required.
type WordsConfig struct {
	Whitelist []string  // words to answer, or "*" for all; surrounding blanks are ignored; srvr is always answered
	Version   string    // of this program, letters, digits, dots and dashes
	Built     time.Time // the date of the commit that this program was built from
	Source    Source
	Anonymous Anonymous // what everybody may read
}

// Words answers four-letter commands. It is safe for concurrent use.
type Words struct {
	all     bool
	allowed []string
	version string
	source  Source
	reads   Anonymous
	mask    atomic.Int64 // the trace mask: it is stored, but nothing is traced
	totals  lifetimeCounters
	pace    pace          // of long answers, over HTTP too
	listing chan struct{} // has room for one: the long answer that is being made in memory
}

// defaultMask is the trace mask with which ZooKeeper starts.
const defaultMask = 306

// word describes the answer to a four-letter command.
type word struct {
	// answer writes the answer. stats is filled in only if serving is set.
	answer  func(w *Words, p *textWriter, s *Stats, argument io.Reader)
	serving bool // answered only by a member that serves
	long    bool // it takes time that grows with connections, sessions or watches, or looks at all of them
}

// words lists all of ZooKeeper's four-letter commands. If a connection's first four bytes are none of them, they
// are the length of a frame.
var words = map[string]word{
	"conf": {(*Words).conf, true, false},
	"cons": {(*Words).cons, true, true},
	"crst": {(*Words).crst, true, false},
	"dirs": {(*Words).dirs, true, false},
	"dump": {(*Words).dump, true, true},
	"envi": {(*Words).envi, false, false},
	"gtmk": {(*Words).gtmk, false, false},
	"hash": {(*Words).hash, true, false},
	"isro": {(*Words).isro, false, false},
	"mntr": {(*Words).mntr, true, false},
	"ruok": {(*Words).ruok, false, false},
	"srst": {(*Words).srst, true, false},
	"srvr": {(*Words).srvr, true, false},
	"stat": {(*Words).stat, true, true},
	"stmk": {(*Words).stmk, false, false},
	"wchc": {(*Words).wchc, true, true},
	"wchp": {(*Words).wchp, true, true},
	"wchs": {(*Words).wchs, true, true},
}

// programVersion matches the versions that go-zookeeper's parser of srvr accepts.
var programVersion = regexp.MustCompile(`^[A-Za-z0-9.-]+$`)

// NewWords checks cfg and returns a Words.
func NewWords(cfg WordsConfig) (*Words, error) {
	switch {
	case cfg.Source == nil:
		return nil, errors.New("admin: Source is required")
	case !programVersion.MatchString(cfg.Version):
		return nil, fmt.Errorf("admin: version %q has other characters than letters, digits, dots and dashes", cfg.Version)
	}
	w := &Words{
		allowed: []string{"srvr"}, version: VersionText(cfg.Version, cfg.Built),
		source: cfg.Source, reads: cfg.Anonymous, totals: newTotals(), listing: make(chan struct{}, 1),
	}
	w.mask.Store(defaultMask)
	for _, word := range cfg.Whitelist {
		word = strings.TrimSpace(word)
		w.all = w.all || word == "*"
		w.allowed = append(w.allowed, word)
	}
	return w, nil
}

// VersionText returns the version as the commands show it. The date has the form that ZooKeeper used
// until 3.6, because go-zookeeper reads no other; other tools accept it.
func VersionText(version string, built time.Time) string {
	return InterfaceLevel + "-rollcall-" + version + ", built on " + built.UTC().Format("01/02/2006 15:04 MST")
}

// paths returns the filter of the paths that an answer shows. Clients send commands before they could prove anything.
func (w *Words) paths() *pathFilter { return &pathFilter{source: w.source, sight: w.reads.paths()} }

// IsCommand reports whether a connection's first four bytes are a command.
func (w *Words) IsCommand(name string) bool {
	_, known := words[name]
	return known
}

const notServing = "This ZooKeeper instance is not currently serving requests\n"

// WriteReply writes the answer to a command to out; the caller then closes the connection. argument holds
// the bytes that the client sends after the command. Answer may wait for either stream, and for
// another long answer to be finished. It returns the streams' errors. For an unknown command it writes
// nothing.
func (w *Words) WriteReply(name string, argument io.Reader, out io.Writer) error {
	p := &textWriter{w: out}
	word, known := words[name]
	switch {
	case !known:
	case !w.all && !slices.Contains(w.allowed, name):
		p.printf("%s is not executed because it is not in the whitelist.\n", name)
	case !word.serving:
		word.answer(w, p, nil, argument)
	case word.long:
		p.walker = w.pace.enter()
		defer p.walker.leave()
		fallthrough
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

// textWriter is an answer that is being written. After an error it ignores further output.
type textWriter struct {
	w      io.Writer
	err    error
	walker *pacedReply // nil: the answer is short
}

func (p *textWriter) printf(format string, args ...any) {
	if p.err == nil {
		var n int
		n, p.err = fmt.Fprintf(p.w, format, args...)
		p.walker.wrote(n)
	}
}

func (w *Words) ruok(p *textWriter, _ *Stats, _ io.Reader) { p.printf("imok") }

// isro reports whether this member accepts writes, which is unknown while it does not serve.
func (w *Words) isro(p *textWriter, _ *Stats, _ io.Reader) {
	switch w.source.Stats().Role {
	case "":
		p.printf("null")
	case api.ReadOnly:
		p.printf("ro")
	default:
		p.printf("rw")
	}
}

func (w *Words) gtmk(p *textWriter, _ *Stats, _ io.Reader) { p.printf("%d", w.mask.Load()) }

// stmk is followed by the new trace mask, eight bytes.
func (w *Words) stmk(p *textWriter, _ *Stats, argument io.Reader) {
	var mask [8]byte
	if _, p.err = io.ReadFull(argument, mask[:]); p.err != nil {
		return
	}
	w.mask.Store(int64(binary.BigEndian.Uint64(mask[:])))
	p.printf("%d", w.mask.Load())
}

func (w *Words) crst(p *textWriter, _ *Stats, _ io.Reader) {
	w.source.ResetConnections()
	p.printf("Connection stats reset.\n")
}

func (w *Words) srst(p *textWriter, _ *Stats, _ io.Reader) {
	w.reset()
	p.printf("Server stats reset.\n")
}

// hash lists digests of the tree in ZooKeeper. Here it lists none.
func (w *Words) hash(*textWriter, *Stats, io.Reader) {}

func (w *Words) dirs(p *textWriter, _ *Stats, _ io.Reader) {
	data, log, err := w.source.DiskUsage()
	if err != nil {
		p.printf("the data directory cannot be read: %v\n", err)
		return
	}
	p.printf("datadir_size: %d\nlogdir_size: %d\n", data, log)
}

func (w *Words) conf(p *textWriter, _ *Stats, _ io.Reader) {
	data, log, err := w.source.DiskUsage()
	if err != nil {
		p.printf("the data directory cannot be read: %v\n", err)
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

func (w *Words) srvr(p *textWriter, s *Stats, _ io.Reader) {
	w.head(p, s)
	figures(p, s)
}

// head begins the answers to srvr and stat.
func (w *Words) head(p *textWriter, s *Stats) {
	p.printf("Zookeeper version: %s\n", w.version)
	if s.Role == api.ReadOnly {
		p.printf("READ-ONLY mode; serving only read-only clients\n")
	}
}

// stat is srvr with the list of connections after the version.
func (w *Words) stat(p *textWriter, s *Stats, _ io.Reader) {
	w.head(p, s)
	p.printf("Clients:\n")
	for c := range walk(p.walker, w.source.Connections()) {
		if p.printf(" %s)\n", brief(&c)); p.err != nil {
			return
		}
	}
	p.printf("\n")
	figures(p, s)
}

func figures(p *textWriter, s *Stats) {
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
	if s.NoMemory { // what follows is not in ZooKeeper's answer, whose parsers do not look for it
		p.printf("Problem: %s\n", shortOfMemory)
	}
	if s.Exposed != "" {
		p.printf("Security: %s\n", s.Exposed)
	}
}
