package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"rollcall/client"
	"rollcall/client/recipe"
)

// serverset is the layout of serversets. Other nodes under the parent, such as Finagle's vector_ nodes with weights, are
// no members.
var serverset = layout[Server]{namePrefix: "member_", encode: encodeServer, decode: decodeServer}

// Endpoint is an address of a server.
type Endpoint struct {
	Host string `json:"host"`
	Port int    `json:"port"`
}

// Server is a member of a serverset.
type Server struct {
	Service    Endpoint            // where clients connect
	Additional map[string]Endpoint // by name, such as admin
	Status     Status              // "" is Alive
	Shard      *int                // nil: none
}

// Status is the state of a server.
type Status string

// These are the statuses of Twitter's commons. Readers of today use servers that are Alive.
const (
	Dead     Status = "DEAD"
	Starting Status = "STARTING"
	Alive    Status = "ALIVE"
	Stopping Status = "STOPPING"
	Stopped  Status = "STOPPED"
	Warning  Status = "WARNING"
)

// serverRecord has the keys of a serverset's JSON.
type serverRecord struct {
	Service    *Endpoint           `json:"serviceEndpoint"`
	Additional map[string]Endpoint `json:"additionalEndpoints"`
	Status     Status              `json:"status"`
	Shard      *int                `json:"shard,omitempty"`
}

// checkPort returns an error unless the endpoint can be connected to.
func (e Endpoint) checkPort() error {
	if e.Host == "" || e.Port < 1 || e.Port > maxPort {
		return fmt.Errorf("the endpoint %.200q, port %d, must have a host and a port of 1 to %d", e.Host, e.Port,
			maxPort)
	}
	return nil
}

func encodeServer(s Server) ([]byte, error) {
	err := s.Service.checkPort()
	for _, e := range s.Additional {
		err = errors.Join(err, e.checkPort())
	}
	if err != nil {
		return nil, err
	}
	r := serverRecord{Service: &s.Service, Additional: s.Additional, Status: cmp.Or(s.Status, Alive), Shard: s.Shard}
	if r.Additional == nil {
		r.Additional = map[string]Endpoint{} // readers want an object
	}
	return encodeJSON(r)
}

// errNoEndpoint means that an entry is not one of a serverset.
var errNoEndpoint = errors.New("it has no serviceEndpoint")

func decodeServer(data []byte) (Server, error) {
	var r serverRecord
	if err := json.Unmarshal(data, &r); err != nil {
		return Server{}, err
	}
	if r.Service == nil {
		return Server{}, errNoEndpoint
	}
	s := Server{Service: *r.Service, Additional: r.Additional, Status: cmp.Or(r.Status, Alive), Shard: r.Shard}
	return s, s.Service.checkPort()
}

// RegisterServer registers a server in the serverset under parent until Unregister or until the session ends. Its node
// gets another number when it comes back.
func RegisterServer(ctx context.Context, c *client.Client, parent string, s Server) (*Registration[Server], error) {
	return serverset.announce(ctx, c, recipe.PathOf(parent, serverset.namePrefix), true, s)
}

// Servers returns the members of the serverset under parent, whatever their Status. What the Client's server has not
// applied yet is missing.
func Servers(ctx context.Context, c *client.Client, parent string) (Listing[Server], error) {
	return serverset.read(ctx, c, parent)
}

// WatchServers returns the members of the serverset under parent, and again after each change until ctx ends, as
// group.Watch does.
func WatchServers(ctx context.Context, c *client.Client, parent string) iter.Seq2[Listing[Server], error] {
	return serverset.follow(ctx, c, parent)
}
