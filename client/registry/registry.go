// Package registry registers services and finds them, in the two layouts that others read.
//
//   - Curator's x-discovery: base/<name>/<id>, an ephemeral node with the instance as JSON. See Register, Instances and
//     Watch.
//   - Serversets of Finagle, Aurora and Twitter's commons: parent/member_<number>, an ephemeral sequential node with
//     endpoints as JSON. See RegisterServer, Servers and WatchServers.
//
// The parents are containers. A registration is a group.Presence: it comes back when its node is deleted, and ends with
// the session. A program that outlives its sessions registers in client.Keep.
//
// An entry shows that its program was alive until at most a session timeout ago. The program may be gone, so callers
// try another entry if one does not reply.
//
// Entries of others may be malformed. They are left out and named in Listing.Malformed; they are no error.
package registry

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"rollcall/client"
	"rollcall/client/group"
	"rollcall/client/internal/roster"
	"rollcall/client/recipe"
)

// MaxEntries limits the entries of one service. More are an error, group.ErrTooMany.
const MaxEntries = roster.MaxChildren

// MaxEntrySize limits an entry in bytes of JSON. Larger ones are rejected when they are registered, and malformed when
// they are read. All entries of a service together have at most group.MaxBytes in the memory of those that follow it;
// the rest is left out, with group.ErrTooMuchData in Listing.Malformed.
const MaxEntrySize = 64 << 10

// Listing has the entries of a service at one time, sorted by the names of their nodes.
type Listing[T any] struct {
	Entries   []T
	Malformed []*MalformedError // the nodes that are no entries, or whose data were left out: group.ErrTooMuchData
}

// MalformedError is the reason for which a node is no entry.
type MalformedError struct {
	Path string
	Err  error
}

// Error implements error.
func (e *MalformedError) Error() string { return fmt.Sprintf("registry: %s: %v", e.Path, e.Err) }

// Unwrap returns Err.
func (e *MalformedError) Unwrap() error { return e.Err }

// layout is one of the layouts of services.
type layout[T any] struct {
	namePrefix string // of the nodes of entries; other nodes are none
	encode     func(T) ([]byte, error)
	decode     func([]byte) (T, error)
}

// listingOf decodes the children of a parent.
func (f *layout[T]) listingOf(parent string, children []roster.Child) (l Listing[T]) {
	for _, child := range children {
		if !strings.HasPrefix(child.Name, f.namePrefix) {
			continue
		}
		entry, err := f.decodeEntry(child)
		if err != nil {
			l.Malformed = append(l.Malformed, &MalformedError{Path: recipe.PathOf(parent, child.Name), Err: err})
			continue
		}
		l.Entries = append(l.Entries, entry)
	}
	return l
}

func (f *layout[T]) decodeEntry(child roster.Child) (entry T, err error) {
	if child.Omitted {
		return entry, group.ErrTooMuchData
	}
	if err := checkSize(child.Data); err != nil {
		return entry, err
	}
	return f.decode(child.Data)
}

func checkSize(data []byte) error {
	if len(data) > MaxEntrySize {
		return fmt.Errorf("the entry has %d bytes; at most %d are allowed", len(data), MaxEntrySize)
	}
	return nil
}

// read returns the entries under a parent.
func (f *layout[T]) read(ctx context.Context, c *client.Client, parent string) (Listing[T], error) {
	children, err := roster.Read(ctx, c, parent)
	if err != nil {
		return Listing[T]{}, fmt.Errorf("registry: %w", err)
	}
	return f.listingOf(parent, children), nil
}

// follow returns the entries under a parent, and again after each change.
func (f *layout[T]) follow(ctx context.Context, c *client.Client, parent string) iter.Seq2[Listing[T], error] {
	return roster.FollowAs(ctx, c, parent, "registry", func(children []roster.Child) Listing[T] {
		return f.listingOf(parent, children)
	})
}

// Registration is an entry that this program has registered. It is safe for concurrent use.
type Registration[T any] struct {
	presence *group.Presence
	layout   *layout[T]
}

func (f *layout[T]) announce(ctx context.Context, c *client.Client, path string, sequential bool, entry T) (
	*Registration[T], error,
) {
	data, err := f.encode(entry)
	if err != nil {
		return nil, fmt.Errorf("registry: register at %s: %w", path, err)
	}
	presence, err := group.Announce(ctx, c, path, group.PresenceConfig{Data: data, Sequential: sequential})
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	return &Registration[T]{presence, f}, nil
}

// Path returns the path of the node, or "" while it has been deleted and is not back.
func (r *Registration[T]) Path() string { return r.presence.Path() }

// Update replaces the entry, as group.Presence.Set does. Its name and id must stay the same.
func (r *Registration[T]) Update(ctx context.Context, entry T) error {
	data, err := r.layout.encode(entry)
	if err != nil {
		return fmt.Errorf("registry: update %s: %w", r.Path(), err)
	}
	return r.presence.Set(ctx, data)
}

// Done returns a channel that is closed when the registration has ended: after Unregister, or with the session.
func (r *Registration[T]) Done() <-chan struct{} { return r.presence.Done() }

// Err returns the reason why the registration has ended, or nil while it has not.
func (r *Registration[T]) Err() error { return r.presence.Err() }

// Unregister deletes the entry, as group.Presence.Leave does.
func (r *Registration[T]) Unregister(ctx context.Context) error { return r.presence.Leave(ctx) }

// checkName returns an error if a text cannot be the name of a node.
func checkName(what, name string) error {
	if name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
		return fmt.Errorf("the %s %.200q must not be empty, . or .., and must not contain a slash", what, name)
	}
	return nil
}
