package zk

import (
	"context"

	"rollcall/client"
	"rollcall/client/lock"
)

// Lock is a lock that one Conn holds at a time. It is a lock.Mutex, which contenders of that library respect. It is not
// safe for concurrent use.
type Lock struct {
	c     *Conn
	path  string
	acl   []ACL
	right *client.Right // nil: it is not held
}

// NewLock returns a lock on a node that is used for nothing else. Lock creates it.
func NewLock(c *Conn, path string, acl []ACL) *Lock { return &Lock{c: c, path: path, acl: acl} }

// Lock waits until it holds the lock.
func (l *Lock) Lock() error { return l.LockWithData([]byte{}) }

// LockWithData is Lock, with data for the node of this contender.
func (l *Lock) LockWithData(data []byte) error {
	if l.right != nil {
		return ErrDeadlock
	}
	return l.c.doWithPath(l.path, func(ctx context.Context, cl *client.Client) (err error) {
		l.right, err = lock.NewMutex(cl, l.path, lock.Config{Data: data, ACL: clientACL(l.acl)}).Lock(ctx)
		return err
	})
}

// Right returns the right to the lock, which says whether it is still held and has a fencing token, or nil if Lock has
// not returned. That library has nothing like it.
func (l *Lock) Right() *client.Right { return l.right }

// Unlock gives the lock up.
func (l *Lock) Unlock() error {
	if l.right == nil {
		return ErrNotLocked
	}
	right := l.right
	l.right = nil
	return toError(right.Release(l.c.ctx))
}
