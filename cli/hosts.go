package cli

import (
	"fmt"
	"strings"

	"rollcall/cli/subtree"
	"rollcall/client"
)

// parseHosts reads a list of servers whose addresses have ports, such as a:2181,b:2181/app. root is the path
// that is put before all paths of nodes, or "".
func parseHosts(text string) (hosts []string, root string, err error) {
	hosts, root, err = client.ParseServers(text, 0)
	if err != nil || root == "" {
		return hosts, "", err
	}
	if _, after, more := strings.Cut(root, ","); more && strings.Contains(after, ":") {
		return nil, "", fmt.Errorf("the path %.200q has another address in it; a path comes after the last address", root)
	}
	return hosts, root, subtree.CheckPath(root)
}
