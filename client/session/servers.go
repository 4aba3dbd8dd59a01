package session

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

// These limits apply to the names in a list of servers.
const (
	maxSRVName    = 253 // the longest name in DNS, in bytes
	maxSocketPath = 107 // the longest path of a socket on Linux, in bytes; other systems allow 103
)

// srvPrefix and unixPrefix begin entries that are no host:port. javaSRVPrefix begins the list of ZooKeeper's Java client from 3.10 on that
// names SRV records.
const srvPrefix, unixPrefix, javaSRVPrefix = "srv:", "unix:", "dns-srv://"

// isSRV reports whether an entry is a name with SRV records. A host may be called srv, and then a port follows.
func isSRV(entry string) bool {
	name, ok := strings.CutPrefix(entry, srvPrefix)
	return ok && (name == "" || strings.Trim(name, "0123456789") != "")
}

// isUnix reports whether an entry is a socket.
func isUnix(entry string) bool { return strings.HasPrefix(entry, unixPrefix+"/") }

// ParseServers reads a list of servers as ZooKeeper's clients take it, such as a:2181,b:2181/app: entries of
// Config.Servers, and the path of the node that all paths begin at. An entry is
//
//   - host:port; without a port it has the port given, and it is an error if that is 0;
//   - srv:_zookeeper._tcp.example.com, for the servers in the SRV records of this name;
//   - unix:/run/rollcall.sock, a socket. Its path ends at a comma or at ":/". The path of the node follows the colon,
//     as in unix:/run/rollcall.sock:/app.
//
// A list may also be dns-srv://_zookeeper._tcp.example.com/app, as ZooKeeper's Java client has it from 3.10 on: the entry srv: and the path.
//
// The root is "" if all paths begin at /. It may have one slash at its end, which is left out, and is not checked otherwise.
func ParseServers(text string, port int) (servers []string, root string, err error) {
	if name, ok := strings.CutPrefix(strings.TrimSpace(text), javaSRVPrefix); ok {
		text = srvPrefix + name
		if entry, _, more := cutEntry(text); more || !isSRV(entry) {
			return nil, "", fmt.Errorf("%.200q: dns-srv:// is followed by one name with SRV records, as in dns-srv://_zookeeper._tcp.example.com/app; "+
				"in a list of several, each has srv: in front", javaSRVPrefix+name)
		}
	}
	for more := true; more; {
		var entry string
		entry, text, more = cutEntry(text)
		if entry, err = parseEntry(strings.TrimSpace(entry), port); err != nil {
			return nil, "", err
		}
		servers = append(servers, entry)
	}
	if len(servers) > maxServers {
		return nil, "", fmt.Errorf("%d addresses; at most %d are allowed", len(servers), maxServers)
	}
	root = text
	if trimmed := strings.TrimSuffix(text, "/"); !strings.HasSuffix(trimmed, "/") {
		root = trimmed
	}
	return servers, root, nil
}

// cutEntry returns the first entry of a list, and the rest: the following entries if more is set, or else the root.
func cutEntry(text string) (entry, rest string, more bool) {
	text = strings.TrimLeftFunc(text, unicode.IsSpace)
	root, separator := strings.IndexByte(text, '/'), ""
	if isUnix(text) {
		if separator, root = ":", strings.Index(text[len(unixPrefix):], ":/"); root >= 0 {
			root += len(unixPrefix)
		}
	}
	comma := strings.IndexByte(text, ',')
	switch {
	case comma >= 0 && (root < 0 || comma < root):
		return text[:comma], text[comma+1:], true
	case root < 0:
		return text, "", false
	default:
		return text[:root], text[root+len(separator):], false
	}
}

// parseEntry checks an entry, and adds the port if there is none.
func parseEntry(entry string, port int) (string, error) {
	switch name := strings.TrimPrefix(entry, srvPrefix); {
	case isUnix(entry):
		if len(entry)-len(unixPrefix) > maxSocketPath {
			return "", fmt.Errorf("%.200q: the path of a socket has at most %d bytes", entry, maxSocketPath)
		}
		return entry, nil
	case !isSRV(entry):
		return parseHostPort(entry, port)
	case name == "" || len(name) > maxSRVName || strings.ContainsAny(name, ":[]") ||
		strings.ContainsFunc(name, unicode.IsSpace):
		return "", fmt.Errorf("%.200q is not srv: and a name of at most %d bytes, as in srv:_zookeeper._tcp.example.com",
			entry, maxSRVName)
	}
	return entry, nil
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

// ParseHostPorts is ParseServers for programs that need addresses of the form host:port. Other entries are errors.
func ParseHostPorts(text string, port int) (servers []string, root string, err error) {
	servers, root, err = ParseServers(text, port)
	for _, entry := range servers {
		if isSRV(entry) || isUnix(entry) {
			return nil, "", fmt.Errorf("%.200q is not host:port", entry)
		}
	}
	return servers, root, err
}
