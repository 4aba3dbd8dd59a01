package shell

import (
	"iter"
	"sync/atomic"
)

const (
	// redo reaches the last maxLoggedLines lines of this shell, in at most maxLoggedBytes.
	maxLoggedLines = 10_000
	maxLoggedBytes = 32 << 20
	// The verb history lists shownLines lines before the present one.
	shownLines = 10
)

// commandLog numbers the lines that this shell has run. The present line is the last one.
type commandLog struct {
	lines       []string
	totalBytes  int          // of lines
	firstNumber int          // the number of the first of lines
	linesRun    atomic.Int64 // the number of the present line
}

// currentNumber may be called by any goroutine.
func (p *commandLog) currentNumber() int { return int(p.linesRun.Load()) }

// appendLine appends the present line.
func (p *commandLog) appendLine(line string) {
	for len(p.lines) > 0 && (len(p.lines) == maxLoggedLines || p.totalBytes+len(line) > maxLoggedBytes) {
		p.dropOldest((len(p.lines) + 1) / 2)
	}
	p.lines = append(p.lines, line)
	p.totalBytes += len(line)
}

func (p *commandLog) dropOldest(n int) {
	for _, line := range p.lines[:n] {
		p.totalBytes -= len(line)
	}
	p.lines = append([]string(nil), p.lines[n:]...)
	p.firstNumber += n
}

// replaceCurrent replaces the present line.
func (p *commandLog) replaceCurrent(line string) {
	if n := len(p.lines); n > 0 {
		p.totalBytes += len(line) - len(p.lines[n-1])
		p.lines[n-1] = line
	}
}

func (p *commandLog) countLineRun() { p.linesRun.Add(1) }

// earlierLine returns line n, and reports whether it is kept.
func (p *commandLog) earlierLine(n int) (string, bool) {
	if n < p.firstNumber || n >= p.currentNumber() {
		return "", false
	}
	return p.lines[n-p.firstNumber], true
}

// recentLines returns the last lines up to the present one, with their numbers.
func (p *commandLog) recentLines() iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		for n := max(p.firstNumber, p.currentNumber()-shownLines); n-p.firstNumber < len(p.lines); n++ {
			if !yield(n, p.lines[n-p.firstNumber]) {
				return
			}
		}
	}
}
