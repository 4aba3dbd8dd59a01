package before

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"unicode"
)

// maxServers limits a list of servers: more than any ensemble has, and few enough to query all at once.
const maxServers = 32

// ParseServers reads a list of servers as ZooKeeper's clients take it, such as a:2181,b:2181/app: addresses,
// and the path of the node that all paths begin at. The path is "" if that is the root, and is not checked
// otherwise. An address without a port has the port given; if that is 0, it is an error.
func ParseServers(text string, port int) (servers []string, root string, err error) {
	if i := strings.IndexByte(text, '/'); i >= 0 {
		text, root = text[:i], text[i:]
	}
	for addr := range strings.SplitSeq(text, ",") {
		addr, err := parseHostPort(strings.TrimSpace(addr), port)
		if err != nil {
			return nil, "", err
		}
		servers = append(servers, addr)
	}
	if len(servers) > maxServers {
		return nil, "", fmt.Errorf("%d addresses; at most %d are allowed", len(servers), maxServers)
	}
	if root == "/" {
		root = ""
	}
	return servers, root, nil
}

// parseHostPort returns an address with its port.
func parseHostPort(addr string, port int) (string, error) {
	if addr == "" {
		return "", errors.New("an address is missing; must be host:port,host:port")
	}
	host, number, err := net.SplitHostPort(addr)
	bare := addr
	if strings.HasPrefix(addr, "[") && strings.HasSuffix(addr, "]") {
		bare = addr[1 : len(addr)-1]
	}
	if err != nil && (!strings.Contains(bare, ":") || net.ParseIP(bare) != nil) {
		if port == 0 {
			return "", fmt.Errorf("%.200q has no port; must be host:port", addr)
		}
		host, number, err = bare, strconv.Itoa(port), nil
	}
	n, bad := strconv.ParseUint(number, 10, 16)
	switch {
	case err != nil || strings.ContainsAny(host, "[]") || strings.ContainsFunc(host, unicode.IsSpace):
		return "", fmt.Errorf("%.200q is not host:port; an IPv6 address stands in brackets, as in [::1]:2181", addr)
	case host == "":
		return "", fmt.Errorf("%.200q has no host; must be host:port", addr)
	case bad != nil || n == 0:
		return "", fmt.Errorf("%.200q: a port is a number from 1 to 65535", addr)
	}
	return net.JoinHostPort(host, number), nil
}
