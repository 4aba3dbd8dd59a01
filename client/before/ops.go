package before

import (
	"context"
	"time"

	"rollcall/zk/jute"
)

// doWithPathError does a request about a path for the typed calls below. They all wait as Do does, and their
// error is an *Error. Version -1 matches any version. The Client's Config has the function
// that gets the events of a watch.
func (c *Client) doWithPathError(ctx context.Context, op jute.Op, path string, rec Record, into Readable) error {
	if _, err := c.Do(ctx, op, rec, into); err != nil {
		return &Error{Op: op, Path: path, Err: err}
	}
	return nil
}

// Create creates a node and returns its path, to which a sequential mode appends a number. If acl
// is nil, everyone has every permission. For modes with a TTL there is CreateTTL.
func (c *Client) Create(ctx context.Context, path string, data []byte, mode jute.CreateMode, acl []jute.ACL) (string,
	error,
) {
	rec := createRequest(path, data, mode, acl)
	if mode.IsContainer() {
		var resp jute.Create2Response
		err := c.doWithPathError(ctx, jute.OpCreateContainer, path, rec, &resp)
		return string(resp.Path), err
	}
	var resp jute.CreateResponse
	err := c.doWithPathError(ctx, jute.OpCreate, path, rec, &resp)
	return string(resp.Path), err
}

// CreateTTL is Create for jute.PersistentWithTTL and jute.PersistentSequentialWithTTL. The server
// deletes the node when it has had no children and no change for ttl, in whole milliseconds.
func (c *Client) CreateTTL(ctx context.Context, path string, data []byte, mode jute.CreateMode, acl []jute.ACL,
	ttl time.Duration,
) (string, error) {
	var resp jute.Create2Response
	rec := jute.CreateTTLRequest{CreateRequest: createRequest(path, data, mode, acl), TTL: ttl.Milliseconds()}
	err := c.doWithPathError(ctx, jute.OpCreateTTL, path, rec, &resp)
	return string(resp.Path), err
}

func createRequest(path string, data []byte, mode jute.CreateMode, acl []jute.ACL) jute.CreateRequest {
	if acl == nil {
		acl = jute.OpenACL
	}
	return jute.CreateRequest{Path: []byte(path), Data: data, ACL: acl, Flags: mode}
}

// Set sets a node's data.
func (c *Client) Set(ctx context.Context, path string, data []byte, version int32) (jute.Stat, error) {
	var resp jute.SetDataResponse
	err := c.doWithPathError(ctx, jute.OpSetData, path,
		jute.SetDataRequest{Path: []byte(path), Data: data, Version: version},
		&resp)
	return resp.Stat, err
}

// Get returns a node's data, nil if they are null, and its Stat.
func (c *Client) Get(ctx context.Context, path string, watch bool) ([]byte, jute.Stat, error) {
	var resp jute.GetDataResponse
	err := c.doWithPathError(ctx, jute.OpGetData, path, jute.GetDataRequest{Path: []byte(path), Watch: watch}, &resp)
	return resp.Data, resp.Stat, err
}

// Exists returns a node's Stat, or the error jute.NoNode if there is none. A watch is set in both
// cases.
func (c *Client) Exists(ctx context.Context, path string, watch bool) (jute.Stat, error) {
	var resp jute.ExistsResponse
	err := c.doWithPathError(ctx, jute.OpExists, path, jute.ExistsRequest{Path: []byte(path), Watch: watch}, &resp)
	return resp.Stat, err
}

// Children returns the names of a node's children, in no order, and its Stat.
func (c *Client) Children(ctx context.Context, path string, watch bool) ([]string, jute.Stat, error) {
	var resp jute.GetChildren2Response
	err := c.doWithPathError(ctx, jute.OpGetChildren2, path, jute.GetChildrenRequest{Path: []byte(path), Watch: watch},
		&resp)
	if err != nil {
		return nil, jute.Stat{}, err
	}
	names := make([]string, len(resp.Children))
	for i, name := range resp.Children {
		names[i] = string(name)
	}
	return names, resp.Stat, nil
}

// Delete removes a node without children.
func (c *Client) Delete(ctx context.Context, path string, version int32) error {
	return c.doWithPathError(ctx, jute.OpDelete, path, jute.DeleteRequest{Path: []byte(path), Version: version}, nil)
}

// Sync waits until the server has applied everything that was written anywhere before the call.
func (c *Client) Sync(ctx context.Context, path string) error {
	return c.doWithPathError(ctx, jute.OpSync, path, jute.SyncRequest{Path: []byte(path)}, nil)
}

// GetACL returns a node's access control list and its Stat.
func (c *Client) GetACL(ctx context.Context, path string) ([]jute.ACL, jute.Stat, error) {
	var resp jute.GetACLResponse
	err := c.doWithPathError(ctx, jute.OpGetACL, path, jute.GetACLRequest{Path: []byte(path)}, &resp)
	return resp.ACL, resp.Stat, err
}

// SetACL sets a node's access control list. version is that of the list.
func (c *Client) SetACL(ctx context.Context, path string, acl []jute.ACL, version int32) (jute.Stat, error) {
	var resp jute.SetACLResponse
	err := c.doWithPathError(ctx, jute.OpSetACL, path, jute.SetACLRequest{Path: []byte(path), ACL: acl, Version: version},
		&resp)
	return resp.Stat, err
}

// AddWatch sets a persistent watch on a node, which need not exist.
func (c *Client) AddWatch(ctx context.Context, path string, mode jute.AddWatchMode) error {
	return c.doWithPathError(ctx, jute.OpAddWatch, path, jute.AddWatchRequest{Path: []byte(path), Mode: mode}, nil)
}

// RemoveWatches removes this session's watches on a node. The error is jute.NoWatcher if there are
// none of this type.
func (c *Client) RemoveWatches(ctx context.Context, path string, which jute.WatcherType) error {
	return c.doWithPathError(ctx, jute.OpRemoveWatches, path, jute.RemoveWatchesRequest{Path: []byte(path), Type: which},
		nil)
}
