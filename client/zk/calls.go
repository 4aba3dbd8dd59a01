package zk

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"rollcall/client"
)

// do calls a function that sends a request, when there is a session.
func (c *Conn) do(call func(ctx context.Context, cl *client.Client) error) error {
	for {
		cl, err := c.awaitSession()
		if err != nil {
			return err
		}
		if err = call(c.ctx, cl); !errors.Is(err, client.ErrSuspended) {
			return toError(err)
		}
	}
}

// doWithPath checks a path first.
func (c *Conn) doWithPath(path string, call func(ctx context.Context, cl *client.Client) error) error {
	if err := validatePath(path, false); err != nil {
		return err
	}
	return c.do(call)
}

// statUnlessClosed returns the Stat of a reply: it is nil if there was no reply.
func statUnlessClosed(stat client.Stat, err error) *Stat {
	if errors.Is(err, ErrConnectionClosed) || errors.Is(err, ErrInvalidPath) || errors.Is(err, ErrNoServer) {
		return nil
	}
	return statOf(stat)
}

// AddAuth proves an identity, on this session and those that follow.
func (c *Conn) AddAuth(scheme string, auth []byte) error {
	identity := client.Auth{Scheme: scheme, Proof: slices.Clone(auth)}
	err := c.do(func(ctx context.Context, cl *client.Client) error { return cl.AddAuth(ctx, identity) })
	if err == nil {
		c.update(func() { c.auth = append(c.auth, identity) })
	}
	return err
}

// call sends a request about a path, whose reply is something and a Stat.
func call[T any](c *Conn, path string, send func(*client.Client, context.Context, string) (T, client.Stat, error)) (
	something T, _ *Stat, err error,
) {
	var stat client.Stat
	err = c.doWithPath(path, func(ctx context.Context, cl *client.Client) error {
		something, stat, err = send(cl, ctx, path)
		return err
	})
	return something, statUnlessClosed(stat, err), err
}

// Children returns the names of a node's children.
func (c *Conn) Children(path string) ([]string, *Stat, error) {
	return call(c, path, (*client.Client).Children)
}

// Get returns a node's data.
func (c *Conn) Get(path string) ([]byte, *Stat, error) {
	return call(c, path, (*client.Client).Get)
}

// Exists reports whether there is a node.
func (c *Conn) Exists(path string) (bool, *Stat, error) {
	return call(c, path, func(cl *client.Client, ctx context.Context, path string) (bool, client.Stat, error) {
		stat, exists, err := cl.Exists(ctx, path)
		return exists, stat, err
	})
}

// replyFunc gets the reply to a read that sets a watch, and the kind of watch that was set.
type replyFunc[T any] func(T, client.Stat, watchKind, error)

// watched sends a read that sets a watch, and waits for its reply. send gets a function that it calls when the reply is
// read.
func watched[T any](c *Conn, path string,
	send func(context.Context, client.Pipeline, replyFunc[T]) error,
) (something T, _ *Stat, fired <-chan Event, err error) {
	type reply struct {
		something T
		stat      client.Stat
		fired     <-chan Event
		err       error
	}
	var r reply
	err = c.doWithPath(path, func(ctx context.Context, cl *client.Client) error {
		replied := make(chan reply, 1)
		err := send(ctx, cl.Pipeline(), func(something T, stat client.Stat, kind watchKind, err error) {
			r := reply{something: something, stat: stat, err: err}
			if err == nil {
				r.fired = c.watches.add(path, kind)
			}
			replied <- r
		})
		if err != nil {
			return err
		}
		select {
		case r = <-replied:
			return r.err
		case <-ctx.Done(): // all watches end
			return ctx.Err()
		}
	})
	if err != nil {
		return something, nil, nil, err
	}
	return r.something, statOf(r.stat), r.fired, nil
}

// ChildrenW is Children, and watches the names of the children and the node's deletion.
func (c *Conn) ChildrenW(path string) ([]string, *Stat, <-chan Event, error) {
	return watched(c, path, func(ctx context.Context, p client.Pipeline, reply replyFunc[[]string]) error {
		return p.ChildrenAndWatch(ctx, path, func(names []string, stat client.Stat, err error) {
			reply(slices.Clone(names), stat, watchChild, err)
		})
	})
}

// GetW is Get, and watches the node's data and its deletion.
func (c *Conn) GetW(path string) ([]byte, *Stat, <-chan Event, error) {
	return watched(c, path, func(ctx context.Context, p client.Pipeline, reply replyFunc[[]byte]) error {
		return p.GetAndWatch(ctx, path, func(data []byte, stat client.Stat, err error) {
			reply(slices.Clone(data), stat, watchData, err)
		})
	})
}

// ExistsW is Exists, and watches the node's creation, its data and its deletion.
func (c *Conn) ExistsW(path string) (bool, *Stat, <-chan Event, error) {
	return watched(c, path, func(ctx context.Context, p client.Pipeline, reply replyFunc[bool]) error {
		return p.ExistsAndWatch(ctx, path, func(stat client.Stat, exists bool, err error) {
			reply(exists, stat, map[bool]watchKind{true: watchData, false: watchExist}[exists], err)
		})
	})
}

// Set sets a node's data. Version -1 matches any.
func (c *Conn) Set(path string, data []byte, version int32) (*Stat, error) {
	_, stat, err := call(c, path, func(cl *client.Client, ctx context.Context, path string) (_ any, stat client.Stat, err error) {
		stat, err = cl.Set(ctx, path, data, version)
		return nil, stat, err
	})
	return stat, err
}

// Delete deletes a node without children. Version -1 matches any.
func (c *Conn) Delete(path string, version int32) error {
	return c.doWithPath(path, func(ctx context.Context, cl *client.Client) error { return cl.Delete(ctx, path, version) })
}

// GetACL returns a node's access control list.
func (c *Conn) GetACL(path string) ([]ACL, *Stat, error) {
	return call(c, path, func(cl *client.Client, ctx context.Context, path string) ([]ACL, client.Stat, error) {
		acl, stat, err := cl.GetACL(ctx, path)
		return aclOf(acl), stat, err
	})
}

// SetACL sets a node's access control list. version is that of the list; -1 matches any.
func (c *Conn) SetACL(path string, acl []ACL, version int32) (*Stat, error) {
	_, stat, err := call(c, path, func(cl *client.Client, ctx context.Context, path string) (_ any, stat client.Stat, err error) {
		stat, err = cl.SetACL(ctx, path, clientACL(acl), version)
		return nil, stat, err
	})
	return stat, err
}

// Sync waits until the server has applied everything that was written before the call. It returns path.
func (c *Conn) Sync(path string) (string, error) {
	err := c.doWithPath(path, func(ctx context.Context, cl *client.Client) error { return cl.Sync(ctx) })
	if err != nil {
		return "", err
	}
	return path, nil
}

// create creates a node of a kind that is right. reason is the text of the error if it is not.
func (c *Conn) create(path string, data []byte, flags int32, acl []ACL, ttl time.Duration,
	isRight func(createMode) bool, reason string,
) (made string, err error) {
	mode, err := parseCreateMode(flags)
	if err == nil {
		err = validatePath(path, mode.mode.IsSequential())
	}
	if err == nil && !isRight(mode) {
		err = fmt.Errorf("%s: %w", reason, ErrInvalidFlags)
	}
	if err != nil {
		return "", err
	}
	err = c.do(func(ctx context.Context, cl *client.Client) error {
		made, _, err = cl.Create(ctx, path, data, mode.clientMode(ttl, acl))
		return err
	})
	return made, err
}

// Create creates a node without a TTL, and returns its path.
func (c *Conn) Create(path string, data []byte, flags int32, acl []ACL) (string, error) {
	isRight := func(m createMode) bool { return !m.isTTL }
	return c.create(path, data, flags, acl, 0, isRight, "Create with TTL flag disallowed")
}

// CreateContainer creates a container, and returns its path.
func (c *Conn) CreateContainer(path string, data []byte, flag int32, acl []ACL) (string, error) {
	isRight := func(m createMode) bool { return m.isContainer }
	return c.create(path, data, flag, acl, 0, isRight, "CreateContainer requires container flag")
}

// CreateTTL creates a node that the servers delete when it had no children and no change for ttl, and returns its path.
func (c *Conn) CreateTTL(path string, data []byte, flag int32, acl []ACL, ttl time.Duration) (string, error) {
	isRight := func(m createMode) bool { return m.isTTL }
	return c.create(path, data, flag, acl, ttl, isRight, "CreateTTL requires TTL flag")
}

// Limits and names of CreateProtectedEphemeralSequential.
const (
	protectedPrefix = "_c_"
	protectedTries  = 3
)

// CreateProtectedEphemeralSequential creates an ephemeral sequential node whose name has a random id. If the reply is
// lost, it searches for the node by that id before it creates another one.
func (c *Conn) CreateProtectedEphemeralSequential(path string, data []byte, acl []ACL) (string, error) {
	if err := validatePath(path, true); err != nil {
		return "", err
	}
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	id := fmt.Sprintf("%s%x-", protectedPrefix, random)
	slash := strings.LastIndexByte(path, '/')
	parent, protected := path[:slash], path[:slash+1]+id+path[slash+1:]
	var err error
	for range protectedTries {
		var made string
		made, err = c.Create(protected, data, FlagEphemeralSequential, acl)
		switch {
		case err == nil:
			return made, nil
		case errors.Is(err, ErrSessionExpired): // the node cannot exist
		case errors.Is(err, ErrConnectionClosed):
			names, _, err := c.Children(max(parent, "/"))
			if err != nil {
				return "", err
			}
			if i := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, id) }); i >= 0 {
				return parent + "/" + names[i], nil
			}
		default:
			return "", err
		}
	}
	return "", err
}

// Multi carries out all operations or none. ops are *CreateRequest, *SetDataRequest, *DeleteRequest and
// *CheckVersionRequest.
func (c *Conn) Multi(ops ...any) (responses []MultiResponse, err error) {
	list := make([]client.Operation, len(ops))
	for i, op := range ops {
		switch op := op.(type) {
		case *CreateRequest:
			mode, err := parseCreateMode(op.Flags)
			if err != nil {
				return nil, err
			}
			list[i] = client.CreateOp(op.Path, op.Data, mode.clientMode(0, op.Acl))
		case *SetDataRequest:
			list[i] = client.SetOp(op.Path, op.Data, op.Version)
		case *DeleteRequest:
			list[i] = client.DeleteOp(op.Path, op.Version)
		case *CheckVersionRequest:
			list[i] = client.CheckOp(op.Path, op.Version)
		default:
			return nil, fmt.Errorf("unknown operation type %T", op)
		}
	}
	var results []client.Result
	err = c.do(func(ctx context.Context, cl *client.Client) error {
		results, err = cl.Multi(ctx, list...)
		return err
	})
	for i, r := range results {
		responses = append(responses, MultiResponse{String: r.Path, Error: toError(r.Err)})
		if _, isSet := ops[i].(*SetDataRequest); isSet && r.Err == nil {
			responses[i].Stat = statOf(r.Stat)
		}
	}
	return responses, err
}

// IncrementalReconfig adds servers to the ensemble, by their lines, and removes others, by their ids. version is that
// of the list that the change is based on; -1: any.
func (c *Conn) IncrementalReconfig(joining, leaving []string, version int64) (*Stat, error) {
	return reconfigure(c, client.Reconfiguration{
		Joining: append([]string{}, joining...), Leaving: append([]string{}, leaving...), Version: version,
	})
}

// Reconfig replaces the ensemble's list of servers. version is that of the list that the change is based on; -1: any.
func (c *Conn) Reconfig(members []string, version int64) (*Stat, error) {
	return reconfigure(c, client.Reconfiguration{Members: members, Version: version})
}

func reconfigure(c *Conn, change client.Reconfiguration) (_ *Stat, err error) {
	var stat client.Stat
	err = c.do(func(ctx context.Context, cl *client.Client) error {
		_, stat, err = cl.Ensemble().Reconfigure(ctx, change)
		return err
	})
	return statOf(stat), err
}
