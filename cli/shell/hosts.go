package shell

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

const (
	// defaultPort is the port of an address without one.
	defaultPort = 2181
	// maxServers is how many addresses may be named.
	maxServers = 32
)

// target is what a shell connects to.
type target struct {
	text    string   // as it was given
	servers []string // host:port
	root    string   // the node that is / for the shell; "": the root of the tree
}

// parseTarget reads "host:port,host:port/root", as -server of zkCli.sh takes it. The root may be
// missing, and the ports, too.
func parseTarget(text string) (*target, error) {
	t := &target{text: text}
	addrs, _, _ := strings.Cut(text, "/")
	if root := text[len(addrs):]; root != "" && root != "/" {
		if err := checkPath(root); err != nil {
			return nil, fmt.Errorf("%q: %w; allowed is host:port,host:port/root", text, err)
		}
		t.root = root
	}
	for addr := range strings.SplitSeq(addrs, ",") {
		server, err := parseServer(strings.TrimSpace(addr))
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		t.servers = append(t.servers, server)
	}
	if len(t.servers) > maxServers {
		return nil, fmt.Errorf("%d addresses; at most %d are allowed", len(t.servers), maxServers)
	}
	return t, nil
}

// parseServer returns the address with its port.
func parseServer(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(addr, "["), "]"), strconv.Itoa(defaultPort)
		if strings.Contains(host, ":") && net.ParseIP(host) == nil {
			host = ""
		}
	}
	n, err := strconv.Atoi(port)
	if host == "" || err != nil || n < 1 || n > 65535 || strings.ContainsAny(host, " []") {
		return "", fmt.Errorf("%q is not host:port", addr)
	}
	return net.JoinHostPort(host, port), nil
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
