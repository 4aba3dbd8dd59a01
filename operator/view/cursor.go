package view

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"rollcall/operator/api"
)

// ErrBadCursor rejects a cursor that no earlier page of the same list returned.
var ErrBadCursor = errors.New("view: this cursor is not the end of an earlier page of the same list")

// listKind distinguishes the cursors of different lists.
type listKind int

const (
	sessionList listKind = iota + 1
	connectionList
	pathWatchList
	sessionWatchList
	ephemeralList
	removalList
	slowList
)

// position is the content of a cursor: the start of a page. A cursor is text that fits into a URL. Any member
// accepts it; its numbers belong to the members that it names.
type position struct {
	List   listKind `json:"l"`
	ID     uint64   `json:"i,omitempty"` // session from which on
	Member uint32   `json:"m,omitempty"` // member from which on
	Boot   uint64   `json:"b,omitempty"` // incarnation of that member, which counted First
	First  uint64   `json:"f,omitempty"` // connection of that member from which on, and of that one Path; or slow request before which
	Path   []byte   `json:"p,omitempty"` // from which on
	Zxid   int64    `json:"z,omitempty"` // before which, or in which before Part
	Part   uint32   `json:"n,omitempty"`
	Silent []uint32 `json:"s,omitempty"` // members that were silent on an earlier page
}

// encodeCursor returns p as a cursor, with the silent members.
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

// decodeCursor returns the position in a cursor. "" is the beginning of the list.
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

// skippedMembers returns the members that were silent on an earlier page.
func (p position) skippedMembers() []api.Silence {
	var silent []api.Silence
	for _, id := range p.Silent {
		silent = append(silent, api.Silence{MemberID: id, Reason: ReasonSkipped, Detail: "it did not answer an earlier page"})
	}
	return silent
}

// startAndLimit returns the start and the most rows of the page of a list.
func (p Page) startAndLimit(of listKind) (position, int, error) {
	limit, err := p.rowLimit()
	if err != nil {
		return position{}, 0, err
	}
	from, err := decodeCursor(p.Cursor, of)
	return from, limit, err
}

func (p Page) rowLimit() (int, error) {
	switch {
	case p.Limit < 0 || p.Limit > MaxRows:
		return 0, fmt.Errorf("view: a page of %d rows; must have 1 to %d", p.Limit, MaxRows)
	case p.Limit == 0:
		return MaxRows, nil
	}
	return p.Limit, nil
}

func isSilent(silent []api.Silence, id uint32) bool {
	return slices.ContainsFunc(silent, func(s api.Silence) bool { return s.MemberID == id })
}
