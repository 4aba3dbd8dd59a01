package view

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"rollcall/operator/api"
)

// ErrBadCursor means that a cursor is not one that an earlier page returned.
var ErrBadCursor = errors.New("view: this cursor is not the end of an earlier page of the same list")

// listKind tells the cursors of different lists apart.
type listKind int

const (
	sessionList listKind = iota + 1
	connectionList
	pathWatchList
	sessionWatchList
	ephemeralList
	removalList
)

// position is what a cursor holds: where a page begins. A cursor is text without spaces, and fits into a URL. It may be used on any
// member, but the numbers in it are those of the members that it names.
type position struct {
	List   listKind `json:"l"`
	ID     uint64   `json:"i,omitempty"` // session from which on
	Member uint32   `json:"m,omitempty"` // member from which on
	Boot   uint64   `json:"b,omitempty"` // the run of that member's process that counted First
	First  uint64   `json:"f,omitempty"` // connection of that member from which on, and of that one Path
	Path   []byte   `json:"p,omitempty"` // from which on
	Zxid   int64    `json:"z,omitempty"` // before which, or in which before Part
	Part   uint32   `json:"n,omitempty"`
	Silent []uint32 `json:"s,omitempty"` // members that were silent on an earlier page
}

// encodeCursor returns p as a cursor, with the members that were silent.
func (p position) encodeCursor(of listKind, silent []api.Silence) string {
	p.List, p.Silent = of, nil
	for _, s := range silent {
		p.Silent = append(p.Silent, s.MemberID)
	}
	text, err := json.Marshal(p)
	if err != nil {
		panic("view: numbers and bytes do not encode: " + err.Error())
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// decodeCursor returns what a cursor of a list holds. "" is the beginning of the list.
func decodeCursor(c string, of listKind) (position, error) {
	if c == "" {
		return position{List: of}, nil
	}
	var p position
	text, err := base64.RawURLEncoding.DecodeString(c)
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil || p.List != of {
		return position{}, ErrBadCursor
	}
	return p, nil
}

// skippedMembers returns the silences of the members that were silent on an earlier page.
func (p position) skippedMembers() []api.Silence {
	var silent []api.Silence
	for _, id := range p.Silent {
		silent = append(silent, api.Silence{MemberID: id, Reason: ReasonSkipped, Detail: "it did not answer an earlier page"})
	}
	return silent
}

// rowLimit returns the most rows of the page.
func (p Page) rowLimit() (int, error) {
	switch {
	case p.Limit < 0 || p.Limit > MaxRows:
		return 0, fmt.Errorf("view: a page of %d rows; allowed are 1 to %d", p.Limit, MaxRows)
	case p.Limit == 0:
		return MaxRows, nil
	}
	return p.Limit, nil
}

// isSilent reports whether a member is among those that were silent.
func isSilent(silent []api.Silence, id uint32) bool {
	return slices.ContainsFunc(silent, func(s api.Silence) bool { return s.MemberID == id })
}
