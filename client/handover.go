package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"rollcall/client/session"
	"rollcall/zk/jute"
)

// These are the reasons for which a Handover gives no session or no rights.
var (
	// ErrHandoverStale means that the session has ended before a successor came: the Handover is older than the
	// session's timeout, or the machine has been started again since.
	ErrHandoverStale = errors.New("the hand-over is stale: its session has ended")
	// ErrHandoverTaken means that another process has taken the rights of the Handover, or may have.
	ErrHandoverTaken = errors.New("another process has taken over the session")
	// ErrHandoverDamaged means that the bytes are not those of a Handover.
	ErrHandoverDamaged = errors.New("the hand-over is damaged")
	// ErrHandoverGiven means that the Handover has been given away, by WriteFile or Send.
	ErrHandoverGiven = errors.New("the hand-over has been given away")
)

// Handover is a session that another process may continue, and the rights that the session holds. It contains the
// session's password, so keep it secret. HandOver makes one. WriteFile and Send give it to another process.
//
// One process at a time may resume the session. If two do, each takes the connection from the other again and again,
// until Rights has ended the Client of one of them.
type Handover struct {
	Session  SessionID
	Password []byte        // nil: the Handover has been given away
	LastZxid Zxid          // servers that have not applied it reject the connection
	Timeout  time.Duration // of the session; a successor requests it, whatever its Config has
	Chroot   string        // that the paths of Held begin at
	Held     []HeldRight   // the rights, in the order in which HandOver got them

	// Expires is the time at which the session ends if no process resumes it. The clock is that of the machine: on
	// Linux the time since boot, which continues while the machine is suspended, and elsewhere the wall clock.
	Expires time.Duration
	Boot    string // identifies the run of the machine that Expires belongs to; "": the wall clock

	received bool // from a file or a socket: no other process has it
}

// HeldRight is a right in a Handover.
type HeldRight struct {
	Path       string // of the node that the right stands for
	Token      Token
	Created    Zxid  // of the node
	ACLVersion int32 // of the node: the process that raises it first has the right
}

// HandOver ends the Client and leaves the session to another process, which has its timeout to resume it with
// Config.Resume. Until then its ephemeral nodes stay, so no other session gets the rights of this one.
//
// rights are the Client's rights that the successor shall hold; Handover.Rights makes them again there. They and all
// others of the Client have ended when HandOver returns. Stop the work under them first: after a right has ended, its
// contexts end and its functions of OnLost are called, as with Release. Nodes of rights that are not handed over stay
// as long as the session. Watches are not handed over: the successor sets those that it needs.
//
// HandOver reads the node of each right from the ensemble. If one is no longer held, the error is ErrNotHeld. If the
// Client has ended, the error is ErrClosed, or the reason of the end, such as ErrExpired. If there is an error, nothing was handed over and the Client continues. Requests of others in flight end with ErrClosed.
func (c *Client) HandOver(ctx context.Context, rights ...*Right) (Handover, error) {
	if last := c.State(); last.State.IsFinal() {
		return Handover{}, fmt.Errorf("client: hand over: %w", cmp.Or(last.Err, ErrClosed))
	}
	id, timeout := c.Session()
	h := Handover{Session: id, Timeout: timeout, Chroot: string(c.chroot)}
	for _, r := range rights {
		held, err := heldRight(ctx, c, r)
		if err != nil {
			return Handover{}, fmt.Errorf("client: hand over %s: %w", r.path, err)
		}
		h.Held = append(h.Held, held)
	}
	c.Abandon() // before OnLost is called, so that its calls cannot delete a node
	for _, r := range rights {
		r.leaveNode()
	}
	t := c.session.ResumeToken()
	h.Password, h.LastZxid = t.Password, Zxid(t.LastZxid)
	boot, now := machineClock()
	h.Boot, h.Expires = boot, now+timeout
	return h, nil
}

// heldRight returns the data by which a successor takes a right.
func heldRight(ctx context.Context, c *Client, r *Right) (HeldRight, error) {
	if r.c != c {
		return HeldRight{}, errors.New("the right is of another Client")
	}
	if !r.Held() {
		return HeldRight{}, ErrNotHeld
	}
	stat, exists, err := c.Exists(ctx, r.path)
	if err != nil {
		return HeldRight{}, err
	}
	if !exists || !standsFor(c, stat, r.created) {
		r.leaveNode()
		return HeldRight{}, ErrNotHeld
	}
	return HeldRight{Path: r.path, Token: r.token, Created: r.created, ACLVersion: stat.ACLVersion}, nil
}

// standsFor reports whether a node with this Stat is the Client's one that was created by the transaction created.
func standsFor(c *Client, stat Stat, created Zxid) bool {
	id, _ := c.Session()
	return stat.Created == created && stat.Owner == id
}

// CheckFresh returns ErrHandoverStale if the session has ended before now, and nil if it may still live.
func (h *Handover) CheckFresh() error {
	return h.checkFreshAt(machineClock())
}

func (h *Handover) checkFreshAt(boot string, now time.Duration) error {
	switch {
	case boot != h.Boot:
		return fmt.Errorf("%w: the machine has been started again since", ErrHandoverStale)
	case now > h.Expires:
		return fmt.Errorf("%w %v ago, after its timeout of %v", ErrHandoverStale, now-h.Expires, h.Timeout)
	case h.Expires-now > h.Timeout:
		return fmt.Errorf("%w: it is from a time that this machine's clock has not reached yet", ErrHandoverStale)
	}
	return nil
}

// Rights takes the rights of a Handover for c, which has resumed its session, and whose paths begin at the same chroot.
// There is one Right for each of h.Held, with the token that it had. If another client has deleted the node of a right
// meanwhile, that right has ended: its Held returns false.
//
// Of several processes that have the same Handover, one gets the rights. Rights raises the version of each node's ACL,
// with an ACL of the same content, from the value that the predecessor saw: the process that does so first wins. For
// the others the error is ErrHandoverTaken, and their Client has been abandoned, because the session is the winner's.
// If the reply to that write is lost, the process cannot know whether it won. It assumes so if the Handover came by a
// file or a socket, which no other process gets. Otherwise its error is ErrHandoverTaken too.
//
// The identities of c need the permissions to read and to administer the nodes.
func (h *Handover) Rights(ctx context.Context, c *Client) ([]*Right, error) {
	if id, _ := c.Session(); id != h.Session {
		return nil, fmt.Errorf("client: rights of session %v: %w: the Client has session %v", h.Session, ErrNotHeld, id)
	}
	if c.Chroot() != h.Chroot {
		return nil, fmt.Errorf("client: rights of session %v: the Client's chroot is %q, and must be %q", h.Session,
			c.Chroot(), h.Chroot)
	}
	rights := make([]*Right, 0, len(h.Held))
	for _, held := range h.Held {
		right, err := h.claimRight(ctx, c, held)
		if err != nil {
			for _, r := range rights {
				r.leaveNode()
			}
			return nil, fmt.Errorf("client: rights of session %v: %s: %w", h.Session, held.Path, err)
		}
		rights = append(rights, right)
	}
	return rights, nil
}

// claimRight takes one right. It tries until a server has replied, or ctx or the session has ended.
func (h *Handover) claimRight(ctx context.Context, c *Client, held HeldRight) (*Right, error) {
	tried := false // a write of ours may have been carried out
	for {
		err := proveRight(ctx, c)
		var acl []ACL
		var stat Stat
		if err == nil {
			acl, stat, err = c.GetACL(ctx, held.Path)
		}
		switch {
		case errors.Is(err, ErrNoNode), err == nil && !standsFor(c, stat, held.Created):
			ended := newRight(c, held.Path, held.Created, held.Token)
			ended.leaveNode()
			return ended, nil
		case err == nil && tried && h.received && stat.ACLVersion == held.ACLVersion+1:
			return newProvenRight(c, held.Path, stat, held.Token), nil
		case err == nil && stat.ACLVersion != held.ACLVersion:
			c.Abandon()
			return nil, ErrHandoverTaken
		case err == nil:
			stat, err = c.SetACL(ctx, held.Path, acl, held.ACLVersion)
			tried = tried || MayHaveHappened(err)
		}
		switch {
		case err == nil:
			return newProvenRight(c, held.Path, stat, held.Token), nil
		case errors.Is(err, ErrConnectionLost), errors.Is(err, ErrSuspended):
			if err = c.AwaitConnected(ctx); err == nil {
				err = c.Sync(ctx)
			}
			if err != nil && !errors.Is(err, ErrConnectionLost) && !errors.Is(err, ErrSuspended) {
				return nil, err
			}
		case errors.Is(err, ErrNoNode), errors.Is(err, ErrBadVersion): // the next read says which
		default:
			return nil, err
		}
	}
}

func (h *Handover) resumeToken() *session.ResumeToken {
	return &session.ResumeToken{ID: jute.SessionID(h.Session), Password: h.Password, LastZxid: int64(h.LastZxid)}
}
