package shell

import (
	"fmt"

	"rollcall/cli/subtree"
	"rollcall/client"
)

// defaultPort is the port of an address without one.
const defaultPort = 2181

// target is what a shell connects to.
type target struct {
	givenText string        // as it was given
	servers   []string      // host:port
	space     subtree.Space // its root is the node that is / for the shell
}

// parseTarget reads "host:port,host:port/root", as -server of zkCli.sh takes it. The root may be
// missing, and the ports, too.
func parseTarget(text string) (*target, error) {
	servers, root, err := client.ParseServers(text, defaultPort)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	if root != "" {
		if err := checkPath(root); err != nil {
			return nil, fmt.Errorf("%q: %w; allowed is host:port,host:port/root", text, err)
		}
	}
	return &target{givenText: text, servers: servers, space: subtree.Space{Root: root}}, nil
}
