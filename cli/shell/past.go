package shell

import (
	"iter"
	"sync/atomic"
)

const (
	// maxPast is how many lines of this shell redo reaches, and maxPastBytes how many bytes of them.
	maxPast      = 10_000
	maxPastBytes = 32 << 20
	// shownPast is how many lines the verb history lists before the present one.
	shownPast = 10
)

// commandLog holds the lines that this shell has run, by number. The present line is the last one.
type commandLog struct {
	lines []string
	bytes int          // of lines
	first int          // the number of the first of lines
	count atomic.Int64 // the number of the present line
}

// number returns the number of the present line. It may be called by any goroutine.
func (p *commandLog) number() int { return int(p.count.Load()) }

// add takes the present line.
func (p *commandLog) add(line string) {
	for len(p.lines) > 0 && (len(p.lines) == maxPast || p.bytes+len(line) > maxPastBytes) {
		p.forget((len(p.lines) + 1) / 2)
	}
	p.lines = append(p.lines, line)
	p.bytes += len(line)
}

// forget drops the first n lines.
func (p *commandLog) forget(n int) {
	for _, line := range p.lines[:n] {
		p.bytes -= len(line)
	}
	p.lines = append([]string(nil), p.lines[n:]...)
	p.first += n
}

// replace takes another line in place of the present one.
func (p *commandLog) replace(line string) {
	if n := len(p.lines); n > 0 {
		p.bytes += len(line) - len(p.lines[n-1])
		p.lines[n-1] = line
	}
}

// next ends the present line.
func (p *commandLog) next() { p.count.Add(1) }

// line returns an earlier line, and reports whether it is known.
func (p *commandLog) line(n int) (string, bool) {
	if n < p.first || n >= p.number() {
		return "", false
	}
	return p.lines[n-p.first], true
}

// last returns the last lines up to the present one, each with its number.
func (p *commandLog) last() iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for n := max(p.first, p.number()-shownPast); n-p.first < len(p.lines); n++ {
			if !yield(n, p.lines[n-p.first]) {
				return
			}
		}
	}
}
