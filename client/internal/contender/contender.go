// Package contender is the common part of locks and elections: clients contend for a right with ephemeral sequential
// nodes under one parent. The servers number the nodes, and the contender with the smallest number has the right.
//
// # A create whose reply is lost
//
// Each contender has a random protection id in the name of its node. If the connection breaks before the reply to the
// create arrives, Enter waits for a connection, lets the server catch up (sync), and searches the parent's children for
// the id. It creates the node again only if no child has the id. If the caller gives up first, the node is deleted in
// the background. A contender belongs to one session, so a node that is found is never one of an earlier session.
//
// # Waiting
//
// A contender watches one other node: the last one that it has to wait for. So each release wakes one contender, and
// that one lists the parent's children once.
//
// # Order
//
// Contenders are ordered by the sequence number at the end of their names. Other libraries compare the number's text,
// which is the same order up to 2^31 - 1. From then on, ZooKeeper's servers assign that number again, or reject the create
// with -110 (node exists). Contenders reject such a parent, and one with the negative numbers that ZooKeeper's manual
// describes: see ErrNumbersUsedUp. Servers with longSequentialNames assign higher numbers, in the same order as numbers and
// as text. The parent is a container. The servers delete it some time after its last contender has left, and the numbers
// begin at 0 again.
//
// # Background work
//
// Every goroutine that the package starts deletes a node and then ends. The end of the session ends it too.
package contender

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"rollcall/client"
	"rollcall/client/internal/reconnect"
	"rollcall/client/recipe"
)

// Config describes a contender.
type Config struct {
	Parent string       // path of the parent, which is created as a container if it does not exist
	Layout Layout       // required
	Kind   Kind         // of the contender
	Data   []byte       // of its node
	ACL    []client.ACL // of its node; nil: everyone has every permission
	ID     string       // the protection id, such as that of a contender under another parent; "": a random one

	// WaitsFor reports whether the contender waits for earlier contenders of a kind. It waits for the last of them, and
	// has its turn when there are none. nil: it waits for every kind.
	WaitsFor func(earlier Kind) bool
}

// PathOf returns the path of the parent's child with a name.
func (cfg *Config) PathOf(name string) string {
	return recipe.PathOf(cfg.Parent, name)
}

// Contender is a node that contends for the right. Its methods must not be called concurrently.
type Contender struct {
	c                 *client.Client
	cfg               Config
	id                string
	name              Name
	stat              client.Stat
	token             client.Zxid // of the right
	mayHaveDuplicates bool        // a create had no reply: there may be a second node with the id
}

// Path returns the path of the contender's node.
func (x *Contender) Path() string { return x.cfg.PathOf(x.name.Text) }

// Abandon deletes the contender's node in the background. It tries until the node is gone or the session has ended.
func (x *Contender) Abandon() { go func() { _ = x.deleteNodes() }() }

// Leave deletes the contender's node and waits until it is gone. If ctx ends first, Leave returns ctx's error, and the
// deletion continues in the background.
func (x *Contender) Leave(ctx context.Context) error { return reconnect.Finish(ctx, x.deleteNodes) }

// deleteNodes deletes the contender's node. If there may be duplicates, it deletes every node with the contender's id.
func (x *Contender) deleteNodes() error {
	ctx := context.Background() // the session's end ends all calls
	var err error
	if x.name.Text != "" {
		err = x.deleteNode(ctx, x.name.Text)
	}
	if x.mayHaveDuplicates {
		var names []Name
		if names, err = x.findByID(ctx); err == nil {
			err = x.deleteEach(ctx, names)
		}
	}
	if errors.Is(err, client.ErrExpired) {
		return nil // the servers have deleted it
	}
	return err
}

func (x *Contender) deleteEach(ctx context.Context, names []Name) error {
	for _, name := range names {
		if err := x.deleteNode(ctx, name.Text); err != nil {
			return err
		}
	}
	return nil
}

// deleteNode deletes a child of the parent. It returns nil if there is no such child.
func (x *Contender) deleteNode(ctx context.Context, name string) error {
	err := reconnect.Delete(ctx, x.c, x.cfg.PathOf(name))
	if errors.Is(err, client.ErrNoNode) {
		return nil
	}
	return err
}

// Right returns the right of the contender's node. Call it once the contender has its turn, and do not use the contender
// afterwards: Right.Release deletes the node. If the Client may not act on its session at the moment, the contender
// leaves, and the error is client.ErrNotHeld. Right sends a sync if the last proof that the session lives is too old.
func (x *Contender) Right(ctx context.Context) (*client.Right, error) {
	if err := reconnect.Retry(ctx, x.c, func() error { return recipe.Prove(ctx, x.c) }); err != nil {
		x.Abandon()
		return nil, err
	}
	right := recipe.NewRightWithToken(x.c, x.Path(), x.stat, client.Token(x.token))
	if x.mayHaveDuplicates {
		right.OnLost(func() { _ = x.deleteDuplicates() })
	}
	if !right.Held() {
		go func() { _ = right.Release(context.Background()) }() // waits for the session at most
		return nil, fmt.Errorf("%s: %w", x.Path(), client.ErrNotHeld)
	}
	return right, nil
}

// deleteDuplicates deletes the other nodes with the contender's id. It keeps the contender's own node, which Release
// deletes, or a request that passes its place on.
func (x *Contender) deleteDuplicates() error {
	ctx := context.Background() // the session's end ends all calls
	names, err := x.findByID(ctx)
	if err != nil {
		return err
	}
	return x.deleteEach(ctx, slices.DeleteFunc(names, func(n Name) bool { return n == x.name }))
}
