// Package contender has the part that locks and elections share: clients contend for a right with ephemeral sequential
// nodes under one parent. The servers number the nodes, and the contender with the smallest number has the right.
//
// # A create whose reply is lost
//
// Each contender has a random protection id in the name of its node. If the connection breaks before the reply to the
// create has come, Enter waits for a connection, lets the server catch up (sync), and looks for the id among the
// children of the parent. It creates the node again only if it is not there. If the caller gives up first, the node is
// deleted in the background. A contender belongs to one session, so a node that is found is never one of an earlier
// session.
//
// # Waiting
//
// A contender watches one other node: the last one that stands between it and its turn. So each release wakes one
// contender, and each of them lists the parent once.
//
// # Order
//
// Contenders are ordered by the number that ends their names. Other libraries compare the number's text, which is the
// same order up to 2^31 - 1. After that number, ZooKeeper's servers give it again or give negative ones, which sort
// before all others. Contenders refuse such a parent: see ErrNumbersUsedUp. The parent is a container. The servers
// delete it some time after its last contender has left, and the numbers begin at 0 again.
//
// # Background work
//
// All goroutines that the package starts delete a node and then end. The end of the session ends them too.
package contender

import (
	"context"
	"errors"
	"strings"

	"rollcall/client"
	"rollcall/client/internal/reconnect"
	"rollcall/client/recipe"
)

// Config describes a contender.
type Config struct {
	Parent string       // its path. It is created as a container if it does not exist
	Layout Layout       // required
	Kind   Kind         // of the contender
	Data   []byte       // of its node
	ACL    []client.ACL // of its node; nil: everyone has every permission
}

// PathOf returns the path of a node of the parent.
func (cfg *Config) PathOf(name string) string {
	return recipe.PathOf(cfg.Parent, name)
}

// Contender is a node under a parent. Its methods must not be called concurrently.
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

// Name returns the name of the contender's node.
func (x *Contender) Name() Name { return x.name }

// Stat returns the Stat of the contender's node as it was created.
func (x *Contender) Stat() client.Stat { return x.stat }

// Abandon deletes the contender's node in the background. It tries until the node is gone or the session has ended.
func (x *Contender) Abandon() { go func() { _ = x.deleteNodes() }() }

// Leave deletes the contender's node and waits until it is gone. If ctx ends first, it returns ctx's error, and goes on
// in the background.
func (x *Contender) Leave(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- x.deleteNodes() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// deleteNodes deletes the contender's node, and if a create had no reply all nodes with its id.
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

// deleteNode deletes a node of the parent. One that is gone is no error.
func (x *Contender) deleteNode(ctx context.Context, name string) error {
	err := reconnect.Delete(ctx, x.c, x.cfg.PathOf(name))
	if errors.Is(err, client.ErrNoNode) {
		return nil
	}
	return err
}

// lastElement returns the last part of a path.
func lastElement(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }
