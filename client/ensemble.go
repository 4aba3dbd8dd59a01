package client

import (
	"context"
	"errors"
	"fmt"

	"rollcall/client/session"
	"rollcall/zk/jute"
)

// ConfigPath is the node with the ensemble's list of servers. It is outside of every chroot.
const ConfigPath = "/zookeeper/config"

// Ensemble has the calls about the ensemble's list of servers.
type Ensemble struct{ c *Client }

// Ensemble returns the calls about the ensemble's list of servers.
func (c *Client) Ensemble() Ensemble { return Ensemble{c} }

// Servers returns the ensemble's list of servers in ZooKeeper's form, and the Stat of the node that has it.
// The version of the list is in the line version=, in hexadecimal.
func (e Ensemble) Servers(ctx context.Context) ([]byte, Stat, error) {
	var resp jute.GetDataResponse
	err := e.c.callPath(ctx, jute.OpGetData, ConfigPath, jute.GetDataRequest{Path: []byte(ConfigPath)}, &resp)
	return resp.Data, statOf(resp.Stat), err
}

// Reconfiguration is a change of the ensemble's list of servers: either what joins and leaves, or all members.
type Reconfiguration struct {
	Joining []string // server lines, such as server.4=h4:2888:3888:participant;2181
	Leaving []string // ids
	Members []string // all server lines; nil: Joining and Leaving say the change
	Version int64    // of the list that the change is based on; -1: any
}

// Reconfigure changes the ensemble's list of servers, and returns the new list. It needs the permission to write
// ConfigPath.
func (e Ensemble) Reconfigure(ctx context.Context, change Reconfiguration) ([]byte, Stat, error) {
	rec := jute.ReconfigRequest{
		JoiningServers: joinLines(change.Joining), LeavingServers: joinLines(change.Leaving),
		NewMembers: joinLines(change.Members), CurConfigID: change.Version,
	}
	var resp jute.GetDataResponse
	err := e.c.callPath(ctx, jute.OpReconfig, ConfigPath, rec, &resp)
	return resp.Data, statOf(resp.Stat), err
}

// Use replaces the list of servers that the Client connects to, such as after a change of the ensemble. It is a list as
// for Dial, without a chroot; addresses without a port get DefaultPort. The Client moves to another server only if its
// own has left the list, or with the probability that makes the load of all servers even again: see
// session.Session.UpdateServers. It does not wait.
func (e Ensemble) Use(servers string) error {
	list, path, err := session.ParseServers(servers, DefaultPort)
	if err == nil && path != "" {
		err = errors.New("a list of new servers has no chroot; the one of Dial stays")
	}
	if err == nil {
		err = e.c.session.UpdateServers(list)
	}
	if err != nil {
		return fmt.Errorf("client: servers %.200q: %w", servers, err)
	}
	return nil
}
