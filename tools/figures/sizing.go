package main

import (
	"bytes"
	"embed"
	"fmt"
	"math"
	"strings"
	"text/template"
)

//go:embed *.tmpl
var templates embed.FS

// pages are the documents below docs, and their templates.
var pages = []struct{ file, template string }{
	{"performance.md", "performance.md.tmpl"},
	{"performance/details.md", "details.md.tmpl"},
	{"sizing.md", "sizing.md.tmpl"},
}

// renderPage renders a template.
func (k *measurements) renderPage(name string) ([]byte, error) {
	t, err := template.New(name).ParseFS(templates, name)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, name, k.sizingNumbers()); err != nil {
		return nil, err
	}
	return bytes.ReplaceAll(b.Bytes(), []byte("NaN"), []byte("(not measured)")), nil
}

// Machine describes the measuring machine, as rows of a table.
func (k *measurements) Machine() (rows string) {
	for line := range strings.Lines(k.machineText) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			rows += tableRow(name, value)
		}
	}
	return strings.TrimSuffix(rows, "\n")
}

// Builds lists the parts of each build, and the times of their first and last runs, as rows of a table.
func (k *measurements) Builds() (rows string) {
	type partsOfBuild struct {
		parts       []string
		first, last string
	}
	var order []string
	byBuild := map[string]*partsOfBuild{}
	add := func(part, build, at string) {
		g := byBuild[build]
		if g == nil {
			g = &partsOfBuild{first: at}
			byBuild[build], order = g, append(order, build)
		}
		g.parts = appendNew(g.parts, part)
		if !strings.HasPrefix(g.first, at) { // a day that is already named with a time says nothing new
			g.first = min(g.first, at)
		}
		g.last = max(g.last, at)
	}
	for _, part := range []string{"three", "one", "idle15", "idle", "failover", "alone", "backup", "live", "members", "observers", "disk"} {
		for _, l := range k.runsByPart[part] {
			add(part, l.Build, l.At)
		}
	}
	for _, file := range []string{"sessions", "znodes", "watches", "ephemerals", "bench"} {
		if build, day, ok := strings.Cut(k.benchBuilds[file], ", "); ok {
			add(file, build, day)
		}
	}
	for _, build := range order {
		g := byBuild[build]
		rows += tableRow(fmt.Sprintf("build %s, %s to %s", build, g.first, g.last), strings.Join(g.parts, ", "))
	}
	return rows
}

func (k *measurements) HasBench() bool { return len(k.benchSamples["bench"]) > 0 }

// figure is a number of sizing.md, printed with three digits, and with commas from 1,000 on. NaN means that it was not measured.
type figure float64

func (f figure) ceil() figure { return figure(math.Ceil(float64(f))) }

func (f figure) String() string {
	digits := formatNumber(float64(f))
	if f < 1000 {
		return digits
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// sizing has the costs with which sizing.md calculates. The page itself names those that it only shows.
type sizing struct {
	*measurements
	Idle, Session, NodeRSS, NodeSnap, Watch figure
	SessionAt                               figure // the number of sessions with which Session was measured
	CPUPing, CPUSetHigh, CPUGetHigh         figure
	DiskSome, DiskMany, Touch, TouchLength  figure
}

// Assumptions of the arithmetic, not measurements.
const (
	million        = 1e6
	timeout        = 10.0      // a session's timeout in seconds
	touchesPerPong = 100_000.0 // follower.touchesPerPong
	logBytesKept   = 768 << 20 // in bytes: DefaultSnapshotBytes, and maxTrailingFactor x DefaultTrailingBytes
	fanWrites      = 10_000.0  // writes per second in the example with observers
	coreReserve    = 2.0       // cores to provide for each core that is used
	memberCount    = 3.0       // number of members
	reservedFiles  = 2048.0    // a member keeps as many open files for itself (server.connLimit), or a quarter of a lower limit
)

func (k *measurements) sizingNumbers() *sizing {
	const sessions = "live: memory per session, all members"
	z := &sizing{measurements: k}
	z.Session, z.SessionAt = z.Curve(sessions), z.CurveSize(sessions)
	z.NodeSnap = z.Curve("znodes: length in a snapshot")
	z.Watch = z.Curve("watches: memory")
	z.Touch = z.Curve("sessions: touch at the leader")
	z.TouchLength = z.Curve("sessions: answer to a ping, length")
	z.CPUPing = z.Curve("live: CPU time of all members for a ping")
	z.CPUSetHigh = z.Median("three", "set, 64 clients of 1 request, 100 B", "server CPU per op")
	z.CPUGetHigh = z.Median("three", "get, 64 clients of 1 request", "server CPU per op")
	z.DiskSome = z.Median("disk", "conns=64,window=1,size=100", "bytes written per write")
	z.DiskMany = z.Median("disk", "conns=8,window=64,size=100", "bytes written per write")
	z.Idle = z.Median("alone", "memory of one member, idle and empty", "RSS MiB")
	full := z.Median("alone", "memory of one member with 1 M nodes of 100 B, just written", "RSS MiB")
	z.NodeRSS = (full - z.Idle) * (1 << 20) / million
	return z
}

// Median returns the median of a figure of a row.
func (z *sizing) Median(part, row, name string) figure {
	if s := z.rowSpread(part, row, "Rollcall", name); s.runs > 0 {
		return figure(s.median)
	}
	return figure(math.NaN())
}

// Curve returns the value of a curve at a million, or at the greatest size below.
func (z *sizing) Curve(name string) figure { return figure(z.pointBelowMillion(name).y.median) }

// CurveSize returns the size of which Curve returns the value.
func (z *sizing) CurveSize(name string) figure { return figure(z.pointBelowMillion(name).x) }

func (z *sizing) pointBelowMillion(curve string) point {
	last := point{x: math.NaN(), y: spread{median: math.NaN()}}
	for _, p := range z.curves {
		if p.curve == curve && p.x <= million && (last.curve == "" || p.x > last.x) {
			last = p
		}
	}
	return last
}

// OpenFiles returns the most files that a process could open.
func (z *sizing) OpenFiles() string {
	for line := range strings.Lines(z.machineText) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "open files of a process\t"); ok {
			return n
		}
	}
	return "(not measured)"
}

// MembersSentence describes how more members on one machine slow writes down.
func (z *sizing) MembersSentence() string {
	const curve = "members: set 8x64, ops/s"
	var said []string
	for _, p := range z.curves {
		if p.curve == curve {
			said = append(said, fmt.Sprintf("%s with %s", figure(p.y.median), formatNumber(p.x)))
		}
	}
	if len(said) == 0 {
		return "how much slower was not measured"
	}
	return "on one machine it was " + strings.Join(said, ", ") + " writes a second"
}

// Applied returns the rows of the table that applies the formulas.
func (z *sizing) Applied() string {
	var b strings.Builder
	for _, l := range []struct{ sessions, writes, nodes figure }{
		{300, 50, 10_000},
		{3_000, 500, 100_000},
		{15_000, 2_000, 100_000},
		{30_000, 5_000, 1_000_000},
		{57_000, 10_000, 3_000_000},
	} {
		memory := z.memberMemoryMiB(l.sessions) + l.nodes*z.NodeRSS/(1<<20) + l.sessions*z.Watch/memberCount/(1<<20)
		cores := coreReserve * (l.writes*z.CPUSetHigh + 10*l.writes*z.CPUGetHigh + pingsPerSecond(l.sessions)*z.CPUPing) / million / memberCount
		daily := l.writes * z.DiskSome * 86_400 / (1 << 30)
		stays := (logBytesKept + 3*l.nodes*z.NodeSnap) / (1 << 30)
		fmt.Fprintf(&b, "| %v | %v | %v | %v MiB | %v | %v GiB | %v GiB | %v |\n", l.sessions, l.writes, l.nodes,
			memory.ceil(), cores, daily, stays, openFilesFor(l.sessions/2).ceil())
	}
	return b.String()
}

// openFilesFor returns the least limit of open files that leaves so many to clients' connections.
func openFilesFor(conns figure) figure { return min(conns*4/3, conns+reservedFiles) }

// memberMemoryMiB returns a member's memory in MiB, without nodes and watches.
func (z *sizing) memberMemoryMiB(sessions figure) figure {
	return z.Idle + sessions*z.Session/memberCount/(1<<20)
}

func pingsPerSecond(sessions figure) figure { return 3 * sessions / timeout }

// The methods below are the arithmetic in sizing.md's sentences.

func (z *sizing) Pings1M() figure          { return pingsPerSecond(million) }
func (z *sizing) PingCores1M() figure      { return pingsPerSecond(million) * z.CPUPing / million }
func (z *sizing) SessionMem1M() figure     { return million * z.Session / (1 << 30) }
func (z *sizing) TouchMBs() figure         { return pingsPerSecond(million) * z.TouchLength / million }
func (z *sizing) TouchShare() figure       { return pingsPerSecond(million) * z.Touch / 1e9 * 100 }
func (z *sizing) TouchesPerAnswer() figure { return touchesPerPong }
func (z *sizing) Answers() figure          { return figure(million / memberCount / touchesPerPong).ceil() }
func (z *sizing) NodeMem10M() figure       { return 10 * million * z.NodeRSS / (1 << 30) }
func (z *sizing) Ensembles() figure        { return (million / z.SessionAt).ceil() }
func (z *sizing) EnsembleMembers() figure  { return memberCount * z.Ensembles() }
func (z *sizing) EachMemory() figure       { return z.memberMemoryMiB(z.SessionAt).ceil() }
func (z *sizing) EachPings() figure        { return pingsPerSecond(z.SessionAt) }
func (z *sizing) EachCores() figure        { return pingsPerSecond(z.SessionAt) * z.CPUPing / million }
func (z *sizing) ShareLost() figure        { return 100 / z.Ensembles() }
func (z *sizing) FanWrites() figure        { return fanWrites }
func (z *sizing) FanMBs() figure           { return fanWrites * z.DiskMany / million }
func (z *sizing) SnapshotSeconds() figure  { return z.Curve("znodes: snapshot") / 1000 }
func (z *sizing) RestoreSeconds() figure   { return z.Curve("znodes: restore") / 1000 }
