package shell

import (
	"fmt"
	"strings"
	"testing"
)

// Lines keep their numbers when the first ones are forgotten.
func TestPast(t *testing.T) {
	var p commandLog
	for i := range maxLoggedLines + 5 {
		p.appendLine(fmt.Sprint("line ", i))
		if i == maxLoggedLines+4 {
			break // the present line
		}
		p.countLineRun()
	}
	for n, known := range map[int]bool{-1: false, 0: false, maxLoggedLines/2 - 1: false, maxLoggedLines / 2: true, maxLoggedLines + 3: true, maxLoggedLines + 4: false} {
		if line, ok := p.earlierLine(n); ok != known || ok && line != fmt.Sprint("line ", n) {
			t.Errorf("line %d: %q, %t", n, line, ok)
		}
	}
	p.replaceCurrent("a")
	p.replaceCurrent("another")
	var last []string
	for n, line := range p.recentLines() {
		last = append(last, fmt.Sprint(n, " ", line))
	}
	if len(last) != shownLines+1 || last[0] != fmt.Sprintf("%d line %[1]d", maxLoggedLines-6) || last[shownLines] != fmt.Sprint(maxLoggedLines+4, " another") {
		t.Errorf("last lines %q", last)
	}
}

// Long lines are forgotten earlier.
func TestPastIsBounded(t *testing.T) {
	var p commandLog
	long := strings.Repeat("x", maxLoggedBytes/4)
	for range 50 {
		p.appendLine(long)
		total := 0
		for _, line := range p.lines {
			total += len(line)
		}
		if total != p.totalBytes || total > maxLoggedBytes {
			t.Fatalf("%d bytes in lines, counted %d", total, p.totalBytes)
		}
		if line, known := p.earlierLine(p.currentNumber() - 1); known != (p.currentNumber() > 0) || known && line != long {
			t.Fatalf("the last line is known: %t", known)
		}
		p.countLineRun()
	}
	p.appendLine(strings.Repeat("x", maxLine)) // the longest fits
	if _, known := p.earlierLine(p.currentNumber() - 1); !known && len(p.lines) != 1 {
		t.Errorf("%d lines", len(p.lines))
	}
}
