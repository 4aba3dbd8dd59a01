package shell

import (
	"fmt"

	"rollcall/client"
	"rollcall/operator/subtree"
)

// defaultPort is for an address without a port.
const defaultPort = 2181

// target is the ensemble that a shell connects to.
type target struct {
	givenText string        // as the user wrote it
	servers   []string      // host:port
	space     subtree.Space // the shell's / is its root
}

// parseTarget parses "host:port,host:port/root", as -server of zkCli.sh. The ports and the root may be
// missing.
func parseTarget(text string) (*target, error) {
	servers, root, err := client.ParseHostPorts(text, defaultPort)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	if root != "" {
		if err := checkPath(root); err != nil {
			return nil, fmt.Errorf("%q: %w; must be host:port,host:port/root", text, err)
		}
	}
	return &target{givenText: text, servers: servers, space: subtree.Space{Root: root}}, nil
}
