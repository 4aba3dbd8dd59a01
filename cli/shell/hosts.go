package shell

import (
	"fmt"
	"strings"

	"rollcall/client"
)

// defaultPort is the port of an address without one.
const defaultPort = 2181

// target is what a shell connects to.
type target struct {
	text    string   // as it was given
	servers []string // host:port
	root    string   // the node that is / for the shell; "": the root of the tree
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
	return &target{text: text, servers: servers, root: root}, nil
}

// real returns the path of a node in the tree, given its path in the shell.
func (t *target) real(path string) string {
	switch {
	case t.root == "":
		return path
	case path == "/":
		return t.root
	}
	return t.root + path
}

// seen returns the path of a node in the shell, given its path in the tree.
func (t *target) seen(path string) string {
	rest, below := strings.CutPrefix(path, t.root)
	switch {
	case !below || rest != "" && rest[0] != '/':
		return path
	case rest == "":
		return "/"
	}
	return rest
}
