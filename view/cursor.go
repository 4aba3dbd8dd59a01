package view

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Cursor says where a page begins. It is text without spaces, and fits into a URL. It may be used on
// any member, but the numbers in it are those of the members that it names.
type Cursor string

// ErrCursor means that a Cursor is not one that an earlier page returned.
var ErrCursor = errors.New("view: this cursor is not the end of an earlier page of the same list")

// list tells the cursors of different lists apart.
type list int

const (
	sessionList list = iota + 1
	connectionList
	pathWatchList
	sessionWatchList
	ephemeralList
	removalList
)

// position is what a Cursor holds.
type position struct {
	List   list     `json:"l"`
	ID     uint64   `json:"i,omitempty"` // session from which on
	Member uint32   `json:"m,omitempty"` // member from which on
	Boot   uint64   `json:"b,omitempty"` // the run of that member's process that counted First
	First  uint64   `json:"f,omitempty"` // connection of that member from which on, and of that one Path
	Path   []byte   `json:"p,omitempty"` // from which on
	Zxid   int64    `json:"z,omitempty"` // before which, or in which before Part
	Part   uint32   `json:"n,omitempty"`
	Silent []uint32 `json:"s,omitempty"` // members that were silent on an earlier page
}

// cursor returns p as a Cursor, with the members that were silent.
func (p position) cursor(of list, silent []Silence) Cursor {
	p.List, p.Silent = of, nil
	for _, s := range silent {
		p.Silent = append(p.Silent, s.Member)
	}
	text, err := json.Marshal(p)
	if err != nil {
		panic("view: numbers and bytes do not encode: " + err.Error())
	}
	return Cursor(base64.RawURLEncoding.EncodeToString(text))
}

// position returns what a Cursor of a list holds. "" is the beginning of the list.
func (c Cursor) position(of list) (position, error) {
	if c == "" {
		return position{List: of}, nil
	}
	var p position
	text, err := base64.RawURLEncoding.DecodeString(string(c))
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil || p.List != of {
		return position{}, ErrCursor
	}
	return p, nil
}

// skipped returns the silences of the members that were silent on an earlier page.
func (p position) skipped() []Silence {
	var silent []Silence
	for _, id := range p.Silent {
		silent = append(silent, Silence{Member: id, Reason: Skipped, Detail: "it did not answer an earlier page"})
	}
	return silent
}

// limit returns the most rows of the page.
func (p Page) limit() (int, error) {
	switch {
	case p.Limit < 0 || p.Limit > MaxRows:
		return 0, fmt.Errorf("view: a page of %d rows; allowed are 1 to %d", p.Limit, MaxRows)
	case p.Limit == 0:
		return MaxRows, nil
	}
	return p.Limit, nil
}

// isSilent reports whether a member is among those that were silent.
func isSilent(silent []Silence, id uint32) bool {
	return slices.ContainsFunc(silent, func(s Silence) bool { return s.Member == id })
}
