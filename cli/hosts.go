package cli

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"rollcall/cli/subtree"
)

// ParseHosts reads a list of servers as ZooKeeper's clients take it, such as a:2181,b:2181/app: addresses, and
// a path that is put before all paths of nodes. root is "" if there is none.
func ParseHosts(text string) (hosts []string, root string, err error) {
	if i := strings.IndexByte(text, '/'); i >= 0 {
		text, root = text[:i], text[i:]
	}
	for addr := range strings.SplitSeq(text, ",") {
		addr = strings.TrimSpace(addr)
		host, port, err := net.SplitHostPort(addr)
		if n, bad := strconv.ParseUint(port, 10, 16); err != nil || host == "" || bad != nil || n == 0 {
			return nil, "", fmt.Errorf("%.200q is not host:port", addr)
		}
		hosts = append(hosts, addr)
	}
	if len(hosts) > maxHosts {
		return nil, "", fmt.Errorf("%d addresses; at most %d are allowed", len(hosts), maxHosts)
	}
	if _, after, more := strings.Cut(root, ","); more && strings.Contains(after, ":") {
		return nil, "", fmt.Errorf("the path %.200q has another address in it; a path comes after the last address", root)
	}
	if root == "/" {
		root = ""
	}
	if root == "" {
		return hosts, "", nil
	}
	return hosts, root, subtree.CheckPath(root)
}
