package client_test

import (
	"context"
	"crypto/tls"
	"time"

	"rollcall/client"
)

// connections has one way to connect in each line.
var connections = map[string]client.Config{
	"h1:2181,h2:2181,h3:2181":             {},
	"h1:2181,h2:2181/app":                 {Timeout: 10 * time.Second}, // /settings is /app/settings
	"[2001:db8::7]:2181":                  {},
	"srv:_zookeeper._tcp.example.com/app": {}, // DNS has the servers
	"unix:/run/rollcall.sock:/app":        {},
	"tls1:2281,tls2:2281":                 {TLS: &tls.Config{MinVersion: tls.VersionTLS13}},
	"h4:2181":                             {Auth: []client.Auth{client.DigestAuth("ann", "secret")}},
	"h5:2181":                             {Login: &client.Login{User: "ann", Password: "secret"}}, // SASL, DIGEST-MD5
}

// connect waits for a server for at most ten seconds.
func connect(ctx context.Context, servers string, cfg client.Config) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return client.Dial(ctx, servers, cfg)
}

// private creates a node that only its creator may read and change.
func private(ctx context.Context, c *client.Client, path string) error {
	mine := client.ACL{Permissions: client.PermAll, Identity: client.Creator}
	_, _, err := c.Create(ctx, path, nil, client.Persistent.WithACL(mine))
	return err
}

func ExampleDial() {
	_, _, _ = connections, connect, private
}
