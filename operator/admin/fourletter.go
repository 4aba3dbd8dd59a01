// Package admin serves the operators of a member: the four-letter commands of ZooKeeper's servers
// on the client port, and HTTP. It gets metrics and lists from the rest of the member through a
// Source, and has the member carry out changes through Operations. It changes nothing by itself but counters.
//
//   - FourLetterCommands has the whitelist and the short replies.
//   - HTTP serves the table of HTTP.routes. The access class of a row limits its callers. A type for each
//     family has the rows and the handlers: healthProbes, memberAPI, ensembleAPI, eventStreams, membersAPI, nodesAPI, backupsAPI,
//     and adminServer for the commands of ZooKeeper's AdminServer.
//   - monitorMetrics has the metrics that mntr prints and metricsCollector exports.
//   - fourletterlists.go has the replies that grow with connections, sessions and watches. They are written
//     while the lists are read. Those that must be sorted first are made one at a time.
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

// FourLetterConfig configures FourLetterCommands. A field without a default is required.
type FourLetterConfig struct {
	Whitelist       []string  // enabled commands, or "*" for all; surrounding blanks are ignored; srvr is always enabled
	Version         string    // of this program, letters, digits, dots and dashes
	BuildDate       time.Time // the date of the commit that this program was built from
	Source          Source
	AnonymousAccess AnonymousAccess // what callers without credentials may read
}

// FourLetterCommands serves four-letter commands. It is safe for concurrent use.
type FourLetterCommands struct {
	allowAll        bool
	whitelist       []string
	version         string
	source          Source
	anonymousAccess AnonymousAccess
	traceMask       atomic.Int64 // stored, but nothing is traced
	counterOffsets  counterOffsets
	pacer           replyPacer    // of long replies, over HTTP too
	longReplyTurn   chan struct{} // capacity 1: the long reply that is held in memory
}

// defaultMask is ZooKeeper's initial trace mask.
const defaultMask = 306

type fourLetterCommand struct {
	// write writes the reply. stats is nil unless needsServing is set.
	write        func(w *FourLetterCommands, p *textWriter, s *Stats, argument io.Reader)
	needsServing bool // only a member that serves clients replies
	longReply    bool // it takes time that grows with connections, sessions or watches, or looks at all of them
}

// fourLetterCommands lists all of ZooKeeper's four-letter commands. Other first bytes of a connection are the
// length of a frame.
var fourLetterCommands = map[string]fourLetterCommand{
	"conf": {(*FourLetterCommands).conf, true, false},
	"cons": {(*FourLetterCommands).cons, true, true},
	"crst": {(*FourLetterCommands).crst, true, false},
	"dirs": {(*FourLetterCommands).dirs, true, false},
	"dump": {(*FourLetterCommands).dump, true, true},
	"envi": {(*FourLetterCommands).envi, false, false},
	"gtmk": {(*FourLetterCommands).gtmk, false, false},
	"hash": {(*FourLetterCommands).hash, true, false},
	"isro": {(*FourLetterCommands).isro, false, false},
	"mntr": {(*FourLetterCommands).mntr, true, false},
	"ruok": {(*FourLetterCommands).ruok, false, false},
	"srst": {(*FourLetterCommands).srst, true, false},
	"srvr": {(*FourLetterCommands).srvr, true, false},
	"stat": {(*FourLetterCommands).stat, true, true},
	"stmk": {(*FourLetterCommands).stmk, false, false},
	"wchc": {(*FourLetterCommands).wchc, true, true},
	"wchp": {(*FourLetterCommands).wchp, true, true},
	"wchs": {(*FourLetterCommands).wchs, true, true},
}

// programVersion matches the versions that go-zookeeper's parser of srvr accepts.
var programVersion = regexp.MustCompile(`^[A-Za-z0-9.-]+$`)

// NewFourLetterCommands checks cfg and returns a FourLetterCommands.
func NewFourLetterCommands(cfg FourLetterConfig) (*FourLetterCommands, error) {
	switch {
	case cfg.Source == nil:
		return nil, errors.New("admin: Source is required")
	case !programVersion.MatchString(cfg.Version):
		return nil, fmt.Errorf("admin: version %q has other characters than letters, digits, dots and dashes", cfg.Version)
	}
	w := &FourLetterCommands{
		whitelist: []string{"srvr"}, version: VersionText(cfg.Version, cfg.BuildDate),
		source: cfg.Source, anonymousAccess: cfg.AnonymousAccess,
		counterOffsets: counterOffsets{make(chan struct{}, 1), map[string]float64{}}, longReplyTurn: make(chan struct{}, 1),
	}
	w.traceMask.Store(defaultMask)
	for _, word := range cfg.Whitelist {
		word = strings.TrimSpace(word)
		w.allowAll = w.allowAll || word == "*"
		w.whitelist = append(w.whitelist, word)
	}
	return w, nil
}

// VersionText returns the version as the commands show it. The date has the form of ZooKeeper before 3.6, the
// only one that go-zookeeper reads. Other tools accept it.
func VersionText(version string, built time.Time) string {
	return InterfaceLevel + "-rollcall-" + version + ", built on " + built.UTC().Format("01/02/2006 15:04 MST")
}

// newPathFilter returns the filter for a reply. Clients send commands before they can authenticate.
func (w *FourLetterCommands) newPathFilter() *pathFilter {
	return &pathFilter{source: w.source, visibility: w.anonymousAccess.visiblePaths()}
}

// IsCommand reports whether a connection's first four bytes are a command.
func (w *FourLetterCommands) IsCommand(name string) bool {
	_, known := fourLetterCommands[name]
	return known
}

const notServing = "This ZooKeeper instance is not currently serving requests\n"

// WriteReply writes the reply to a command to out; the caller then closes the connection. argument has the
// client's bytes after the command. WriteReply may block on either stream, and on another long reply. It returns the
// streams' errors. It writes nothing for an unknown command.
func (w *FourLetterCommands) WriteReply(name string, argument io.Reader, out io.Writer) error {
	p := &textWriter{w: out}
	word, known := fourLetterCommands[name]
	switch {
	case !known:
	case !w.allowAll && !slices.Contains(w.whitelist, name):
		p.printf("%s is not executed because it is not in the whitelist.\n", name)
	case !word.needsServing:
		word.write(w, p, nil, argument)
	case word.longReply:
		p.pacing = w.pacer.beginAfterPause()
		defer p.pacing.end()
		fallthrough
	default:
		stats := w.source.Stats()
		if stats.Role == "" {
			p.printf(notServing)
			if health := w.source.Health(); name == "srvr" && health.RemovedVersion != 0 {
				text, _ := health.StatusText()
				p.printf("Reason: %s\n", text)
			}
			break
		}
		word.write(w, p, &stats, argument)
	}
	return p.err
}

// textWriter writes a reply. After an error it ignores further output.
type textWriter struct {
	w      io.Writer
	err    error
	pacing *pacedReply // nil: the reply is short
}

func (p *textWriter) printf(format string, args ...any) {
	if p.err == nil {
		var n int
		n, p.err = fmt.Fprintf(p.w, format, args...)
		p.pacing.pauseAfterBytes(n)
	}
}

func (w *FourLetterCommands) ruok(p *textWriter, _ *Stats, _ io.Reader) { p.printf("imok") }

// isro reports whether this member accepts writes, or null while it does not serve.
func (w *FourLetterCommands) isro(p *textWriter, _ *Stats, _ io.Reader) {
	switch w.source.Stats().Role {
	case "":
		p.printf("null")
	case api.RoleReadOnly:
		p.printf("ro")
	default:
		p.printf("rw")
	}
}

func (w *FourLetterCommands) gtmk(p *textWriter, _ *Stats, _ io.Reader) {
	p.printf("%d", w.traceMask.Load())
}

// stmk sets the trace mask to the eight bytes that follow the command.
func (w *FourLetterCommands) stmk(p *textWriter, _ *Stats, argument io.Reader) {
	var mask [8]byte
	if _, p.err = io.ReadFull(argument, mask[:]); p.err != nil {
		return
	}
	w.traceMask.Store(int64(binary.BigEndian.Uint64(mask[:])))
	p.printf("%d", w.traceMask.Load())
}

func (w *FourLetterCommands) crst(p *textWriter, _ *Stats, _ io.Reader) {
	w.source.ResetConnections()
	p.printf("Connection stats reset.\n")
}

func (w *FourLetterCommands) srst(p *textWriter, _ *Stats, _ io.Reader) {
	w.resetCounters()
	p.printf("Server stats reset.\n")
}

// hash writes nothing. In ZooKeeper it lists digests of the tree.
func (w *FourLetterCommands) hash(*textWriter, *Stats, io.Reader) {}

func (w *FourLetterCommands) dirs(p *textWriter, _ *Stats, _ io.Reader) {
	data, log, err := w.source.DiskUsage()
	if err != nil {
		p.printf("the data directory cannot be read: %v\n", err)
		return
	}
	p.printf("datadir_size: %d\nlogdir_size: %d\n", data, log)
}

func (w *FourLetterCommands) conf(p *textWriter, _ *Stats, _ io.Reader) {
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

func (w *FourLetterCommands) srvr(p *textWriter, s *Stats, _ io.Reader) {
	w.writeVersion(p, s)
	writeServerStats(p, s)
}

// writeVersion begins srvr and stat.
func (w *FourLetterCommands) writeVersion(p *textWriter, s *Stats) {
	p.printf("Zookeeper version: %s\n", w.version)
	if s.Role == api.RoleReadOnly {
		p.printf("READ-ONLY mode; serving only read-only clients\n")
	}
}

// stat is srvr with the list of connections after the version.
func (w *FourLetterCommands) stat(p *textWriter, s *Stats, _ io.Reader) {
	w.writeVersion(p, s)
	p.printf("Clients:\n")
	for c := range paced(p.pacing, w.source.Connections()) {
		if p.printf(" %s)\n", connectionSummary(&c)); p.err != nil {
			return
		}
	}
	p.printf("\n")
	writeServerStats(p, s)
}

func writeServerStats(p *textWriter, s *Stats) {
	p.printf("Latency min/avg/max: %d/%s/%d\n", s.Latency.Min.Milliseconds(),
		formatNumber(milliseconds(s.Latency.Avg), true), s.Latency.Max.Milliseconds())
	p.printf("Received: %d\n", s.PacketsReceived)
	p.printf("Sent: %d\n", s.PacketsSent)
	p.printf("Connections: %d\n", s.Connections)
	p.printf("Outstanding: %d\n", s.OutstandingRequests)
	p.printf("Zxid: 0x%x\n", uint64(s.Zxid))
	p.printf("Mode: %s\n", s.Role)
	p.printf("Node count: %d\n", s.Nodes+1) // ZooKeeper counts the root twice
	if s.Role == "leader" {
		p.printf("Proposal sizes last/min/max: %d/%d/%d\n", s.Proposals.Last, s.Proposals.Min, s.Proposals.Max)
	}
	if s.NoMemory { // the lines from here on are not ZooKeeper's; its parsers ignore them
		p.printf("Problem: %s\n", shortOfMemory)
	}
	for _, text := range s.SilentVoters {
		p.printf("Problem: %s\n", text)
	}
	if s.InsecurePorts != "" {
		p.printf("Security: %s\n", s.InsecurePorts)
	}
}
