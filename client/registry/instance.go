package registry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"rollcall/client"
	"rollcall/client/internal/nodepath"
	"rollcall/client/internal/reconnect"
	"rollcall/client/recipe"
)

// Instance is one instance of a service, as Curator's ServiceInstance has it.
type Instance struct {
	Name    string // of the service; the name of its parent
	ID      string // the name of its node. Register draws a random one if it is empty
	Address string // a host or an IP address
	Port    int    // 0: none
	SSLPort int    // 0: none

	// Payload is JSON of the application. nil is none. Curator's default serializer reads objects alone, and those
	// need the key "@class" with the name of a Java class, unless the reader's payload class is Void.
	Payload json.RawMessage

	Registered time.Time   // in milliseconds. Register sets it if it is zero
	Type       ServiceType // "" is Dynamic
	URI        *URISpec    // how to make a URI of the instance; nil: not said

	// Disabled instances shall get no new requests. Curator knows the key "enabled" since 2.12; older readers reject
	// the instance. It is written for disabled instances alone.
	Disabled bool
}

// ServiceType decides over the life of an instance's node.
type ServiceType string

// These are Curator's types of services. Register accepts Dynamic. The others are read.
const (
	Dynamic           ServiceType = "DYNAMIC"            // as long as a session
	DynamicSequential ServiceType = "DYNAMIC_SEQUENTIAL" // the same; a number is appended to the id in the node's name
	Static            ServiceType = "STATIC"             // until it is deleted
	Permanent         ServiceType = "PERMANENT"          // the same
)

// URISpec is the form of a URI.
type URISpec struct {
	Parts []URIPart `json:"parts"`
}

// URIPart is a part of a URI: a text, or the name of a variable, such as scheme, address and port.
type URIPart struct {
	Value    string `json:"value"`
	Variable bool   `json:"variable"`
}

// instanceRecord has the keys of Curator's JSON, in its order.
type instanceRecord struct {
	Name         string          `json:"name"`
	ID           string          `json:"id"`
	Address      string          `json:"address"`
	Port         *int            `json:"port"`
	SSLPort      *int            `json:"sslPort"`
	Payload      json.RawMessage `json:"payload"`
	RegisteredMs int64           `json:"registrationTimeUTC"`
	Type         ServiceType     `json:"serviceType"`
	URI          *URISpec        `json:"uriSpec"`
	Enabled      *bool           `json:"enabled,omitempty"`
}

func portOrNull(port int) *int {
	if port == 0 {
		return nil
	}
	return &port
}

func portOf(port *int) (int, error) {
	if port == nil {
		return 0, nil
	}
	if *port < 0 || *port > maxPort {
		return 0, fmt.Errorf("the port %d is not between 0 and %d", *port, maxPort)
	}
	return *port, nil
}

const maxPort = 65535

// encodeInstance returns the JSON that Curator writes.
func encodeInstance(i Instance) ([]byte, error) {
	if i.Port < 0 || i.Port > maxPort || i.SSLPort < 0 || i.SSLPort > maxPort {
		return nil, fmt.Errorf("the ports %d and %d must be 1 to %d, or 0 for none", i.Port, i.SSLPort, maxPort)
	}
	r := instanceRecord{
		Name: i.Name, ID: i.ID, Address: i.Address, Port: portOrNull(i.Port), SSLPort: portOrNull(i.SSLPort),
		Payload: i.Payload, RegisteredMs: i.Registered.UnixMilli(), Type: cmp.Or(i.Type, Dynamic), URI: i.URI,
	}
	if i.Disabled {
		r.Enabled = new(bool)
	}
	return encodeJSON(r)
}

// encodeJSON returns a value as JSON without the escapes for HTML, or an error if it is too long.
func encodeJSON(value any) ([]byte, error) {
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	data := bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
	return data, checkSize(data)
}

// errNoID means that an entry is not one of Curator's.
var errNoID = errors.New("it has no name or no id")

// decodeInstance reads the JSON of Curator, of any version.
func decodeInstance(data []byte) (Instance, error) {
	var r instanceRecord
	if err := json.Unmarshal(data, &r); err != nil {
		return Instance{}, err
	}
	if r.Name == "" || r.ID == "" {
		return Instance{}, errNoID
	}
	i := Instance{
		Name: r.Name, ID: r.ID, Address: r.Address, Registered: time.UnixMilli(r.RegisteredMs), Type: cmp.Or(r.Type, Dynamic),
		URI: r.URI, Disabled: r.Enabled != nil && !*r.Enabled,
	}
	if !bytes.Equal(r.Payload, []byte("null")) {
		i.Payload = r.Payload
	}
	var portError, sslError error
	i.Port, portError = portOf(r.Port)
	i.SSLPort, sslError = portOf(r.SSLPort)
	return i, errors.Join(portError, sslError)
}

// Register registers an instance under base until Unregister or until the session ends. It waits while another session
// has a node with the same id, as group.Announce does. It returns the registration, and the instance as it was
// registered.
func Register(ctx context.Context, c *client.Client, base string, i Instance) (
	*Registration[Instance], Instance, error,
) {
	if i.ID == "" {
		i.ID = nodepath.NewUUID() // as Curator draws one
	}
	if i.Registered.IsZero() {
		i.Registered = time.UnixMilli(time.Now().UnixMilli())
	}
	err := errors.Join(checkName("name", i.Name), checkName("id", i.ID))
	if err == nil && i.Type != "" && i.Type != Dynamic {
		err = fmt.Errorf("the type %.40q must be %s: other nodes do not end with the session", i.Type, Dynamic)
	}
	if err != nil {
		return nil, Instance{}, fmt.Errorf("registry: register in %s: %w", base, err)
	}
	path := recipe.PathOf(recipe.PathOf(base, i.Name), i.ID)
	r, err := curator.announce(ctx, c, path, false, i)
	return r, i, err
}

// Names returns the names of the services under base, sorted. A service without instances may still be there for a
// minute.
func Names(ctx context.Context, c *client.Client, base string) ([]string, error) {
	names, err := reconnect.Children(ctx, c, base)
	if err != nil {
		return nil, fmt.Errorf("registry: names in %s: %w", base, err)
	}
	slices.Sort(names)
	return names, nil
}

// curator is the layout of x-discovery: every child of a service's parent is an instance.
var curator = layout[Instance]{encode: encodeInstance, decode: decodeInstance}

// Instances returns the instances of a service under base, those that are disabled too. What the Client's server has
// not applied yet is missing.
func Instances(ctx context.Context, c *client.Client, base, name string) (Listing[Instance], error) {
	return curator.read(ctx, c, recipe.PathOf(base, name))
}

// Watch returns the instances of a service under base, and again after each change until ctx ends, as group.Watch does.
func Watch(ctx context.Context, c *client.Client, base, name string) iter.Seq2[Listing[Instance], error] {
	return curator.follow(ctx, c, recipe.PathOf(base, name))
}
