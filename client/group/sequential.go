package group

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"

	"rollcall/client"
	"rollcall/client/internal/nodepath"
	"rollcall/client/internal/reconnect"
	"rollcall/client/recipe"
	"rollcall/zk/jute"
)

// The names of sequential nodes end with the id of their Presence and the servers' number. Both are digits, because
// readers of serversets in Twitter's commons recognise a member by the digits after member_. The id distinguishes a
// node from all others of the session: a name with the same prefix may be that of a lock.
const idLength = 20 // a random number of 64 bits

// newID returns a random id.
func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("%0*d", idLength, binary.BigEndian.Uint64(b[:]))
}

// idIn returns the id in the path of a sequential node with the Presence's prefix. ok is false for any other path.
func (p *Presence) idIn(path string) (id string, ok bool) {
	digits, ok := strings.CutPrefix(path, p.prefix)
	if !ok || len(digits) < idLength {
		return "", false
	}
	id, number := digits[:idLength], digits[idLength:]
	isDigit := func(r rune) bool { return r >= '0' && r <= '9' }
	_, ok = jute.ParseSequence(number)
	return id, ok && strings.TrimLeftFunc(id, isDigit) == ""
}

// chooseID sets the id of a sequential node: that of a node that a predecessor has left in the session, or a new one.
func (p *Presence) chooseID(ctx context.Context) error {
	if !p.mode.IsSequential() {
		return nil
	}
	p.id = newID()
	if !recipe.IsSuccessor(p.c) {
		return nil
	}
	return p.takeInherited(ctx)
}

// inheritedKey is the key in recipe.Shared of the paths of the inherited nodes that a Presence has taken. Each node is
// taken once.
type inheritedKey struct{}

// takeInherited takes a node that a predecessor's Presence with the same prefix and data has left in the session, if
// there is one.
func (p *Presence) takeInherited(ctx context.Context) error {
	var ephemerals []string
	err := reconnect.Retry(ctx, p.c, func() (err error) {
		ephemerals, err = p.c.Ephemerals(ctx, nodepath.Parent(p.prefix))
		return err
	})
	switch {
	case errors.Is(err, client.ErrUnimplemented):
		return nil
	case err != nil:
		return err
	}
	for _, path := range ephemerals {
		id, ok := p.idIn(path)
		if !ok {
			continue
		}
		data, stat, err := reconnect.Read(ctx, p.c, path, (*client.Client).Get)
		switch {
		case errors.Is(err, client.ErrNoNode):
			continue
		case err != nil:
			return err
		case !recipe.Inherited(p.c, stat) || !bytes.Equal(data, p.data):
			continue
		}
		if _, known := recipe.Shared(p.c, inheritedKey{}, func() *sync.Map { return new(sync.Map) }).LoadOrStore(path, true); !known {
			p.id = id
			p.setPath(path)
			return nil
		}
	}
	return nil
}
