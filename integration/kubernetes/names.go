package kubernetes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// names are those of the headless Service. All pods have the file of hosts in place of a DNS server.
type names struct {
	plane *controlPlane

	mu        sync.Mutex
	text      string            // of the file
	addresses map[string]string // by name, such as rollcall-0.rollcall-members
}

func newNames(plane *controlPlane) (*names, error) {
	n := &names{plane: plane}
	return n, os.Mkdir(n.dir(), 0o755)
}

// dir is the directory that all pods have as /etc. It has the file hosts alone.
func (n *names) dir() string { return n.plane.file("etc") }

// publish writes the names in the EndpointSlices of the headless Service into the file of hosts. A pod that has gone has no name.
func (n *names) publish(ctx context.Context) error {
	ofService := metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=rollcall-members"}
	slices, err := n.plane.client.DiscoveryV1().EndpointSlices(namespace).List(ctx, ofService)
	if err != nil {
		return err
	}
	var hosts strings.Builder
	hosts.WriteString("127.0.0.1 localhost\n")
	addresses := map[string]string{}
	for _, slice := range slices.Items {
		for _, endpoint := range slice.Endpoints {
			if endpoint.Hostname == nil || endpoint.Conditions.Ready == nil || !*endpoint.Conditions.Ready {
				continue // with publishNotReadyAddresses, all are ready until they have gone
			}
			name := *endpoint.Hostname + ".rollcall-members"
			addresses[name] = endpoint.Addresses[0]
			fmt.Fprintf(&hosts, "%s %s %s.%s.svc.cluster.local\n", endpoint.Addresses[0], name, name, namespace)
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addresses = addresses
	if hosts.String() == n.text {
		return nil
	}
	n.text = hosts.String()
	return writeWhole(filepath.Join(n.dir(), "hosts"), []byte(n.text), 0o644)
}

// lookup returns the address of a name as the pods see it.
func (n *names) lookup(name string) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	address, found := n.addresses[name]
	if !found {
		return "", fmt.Errorf("lookup %s: no such host", name)
	}
	return address, nil
}
