package shell

import (
	"fmt"
	"strings"
	"testing"
)

// Lines keep their numbers when the first ones are forgotten.
func TestPast(t *testing.T) {
	var p commandLog
	for i := range maxPast + 5 {
		p.add(fmt.Sprint("line ", i))
		if i == maxPast+4 {
			break // the present line
		}
		p.next()
	}
	for n, known := range map[int]bool{-1: false, 0: false, maxPast/2 - 1: false, maxPast / 2: true, maxPast + 3: true, maxPast + 4: false} {
		if line, ok := p.line(n); ok != known || ok && line != fmt.Sprint("line ", n) {
			t.Errorf("line %d: %q, %t", n, line, ok)
		}
	}
	p.replace("a")
	p.replace("another")
	var last []string
	for n, line := range p.last() {
		last = append(last, fmt.Sprint(n, " ", line))
	}
	if len(last) != shownPast+1 || last[0] != fmt.Sprintf("%d line %[1]d", maxPast-6) || last[shownPast] != fmt.Sprint(maxPast+4, " another") {
		t.Errorf("last lines %q", last)
	}
}

// Long lines are forgotten earlier.
func TestPastIsBounded(t *testing.T) {
	var p commandLog
	long := strings.Repeat("x", maxPastBytes/4)
	for range 50 {
		p.add(long)
		total := 0
		for _, line := range p.lines {
			total += len(line)
		}
		if total != p.bytes || total > maxPastBytes {
			t.Fatalf("%d bytes in lines, counted %d", total, p.bytes)
		}
		if line, known := p.line(p.number() - 1); known != (p.number() > 0) || known && line != long {
			t.Fatalf("the last line is known: %t", known)
		}
		p.next()
	}
	p.add(strings.Repeat("x", maxLine)) // the longest fits
	if _, known := p.line(p.number() - 1); !known && len(p.lines) != 1 {
		t.Errorf("%d lines", len(p.lines))
	}
}
