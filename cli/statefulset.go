package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// serviceAccountDir has the token of a pod's service account, the authority of the API server, and the namespace.
	serviceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"
	// statefulSetTimeout limits the request to the API server. The drain and the stop need most of a pod's time to end.
	statefulSetTimeout = 5 * time.Second
	// maxStatefulSetBytes limits the reply. The store of Kubernetes takes objects of up to 1.5 MiB.
	maxStatefulSetBytes = 2 << 20
	// maxAccountBytes limits each file of the service account. A token has about 1 KiB.
	maxAccountBytes = 1 << 20
	// maxOrdinals limits the replicas and ordinals that count. A member's number, which is the ordinal plus one, is 255 at most.
	maxOrdinals = 255
)

// podPlace is the place of a pod among those of its StatefulSet.
type podPlace struct {
	ordinal  int
	first    int // ordinal of the first pod
	replicas int // that the StatefulSet is to have
}

// isToGo reports whether the StatefulSet is to have fewer pods, and this one is not among them. If it is to have none, all pods come back
// one day.
func (p podPlace) isToGo() bool { return p.replicas > 0 && p.ordinal >= p.first+p.replicas }

// isKept reports whether the StatefulSet keeps the pod of a member.
func (p podPlace) isKept(member uint32) bool { return int(member) <= p.first+p.replicas }

// fetchPodPlace asks the API server of Kubernetes for the StatefulSet of this pod. getenv returns the pod's variables.
func fetchPodPlace(ctx context.Context, dir string, getenv func(string) string) (p podPlace, err error) {
	pod := getenv("HOSTNAME")
	dash := strings.LastIndexByte(pod, '-')
	if dash <= 0 {
		return p, fmt.Errorf("HOSTNAME is %.100q, and not the name of a pod of a StatefulSet", pod)
	}
	if p.ordinal, err = strconv.Atoi(pod[dash+1:]); err != nil || p.ordinal < 0 || p.ordinal > maxOrdinals {
		return p, fmt.Errorf("HOSTNAME is %.100q, which ends with no number of a pod", pod)
	}
	host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return p, errors.New("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
	}
	account := map[string]string{}
	for _, name := range []string{"token", "namespace", "ca.crt"} {
		if account[name], err = readAccountFile(filepath.Join(dir, name)); err != nil {
			return p, err
		}
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM([]byte(account["ca.crt"])) {
		return p, fmt.Errorf("%s has no certificate", filepath.Join(dir, "ca.crt"))
	}
	ctx, cancel := context.WithTimeout(ctx, statefulSetTimeout)
	defer cancel()
	address := url.URL{Scheme: "https", Host: net.JoinHostPort(host, port)}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		address.JoinPath("apis/apps/v1/namespaces", account["namespace"], "statefulsets", pod[:dash]).String(), nil)
	if err != nil {
		return p, err
	}
	request.Header.Set("Authorization", "Bearer "+account["token"])
	client := http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the token is for this server alone
	}
	reply, err := client.Do(request)
	if err != nil {
		return p, err
	}
	defer func() { _ = reply.Body.Close() }()
	if reply.StatusCode != http.StatusOK {
		return p, fmt.Errorf("the API server replies to %s with %s", request.URL, reply.Status)
	}
	return p, p.readSpec(io.LimitReader(reply.Body, maxStatefulSetBytes))
}

// readSpec reads the StatefulSet in a reply. The deletion of a StatefulSet does not change its spec, so it removes no member.
func (p *podPlace) readSpec(reply io.Reader) error {
	var set struct {
		Spec struct {
			Replicas *int `json:"replicas"`
			Ordinals struct {
				Start int `json:"start"`
			} `json:"ordinals"`
		} `json:"spec"`
	}
	if err := json.NewDecoder(reply).Decode(&set); err != nil {
		return fmt.Errorf("the StatefulSet cannot be read: %w", err)
	}
	if set.Spec.Replicas == nil {
		return errors.New("the reply has no spec.replicas")
	}
	p.replicas, p.first = *set.Spec.Replicas, set.Spec.Ordinals.Start
	if p.replicas < 0 || p.replicas > maxOrdinals || p.first < 0 || p.first > maxOrdinals {
		return fmt.Errorf("the StatefulSet has spec.replicas %d and spec.ordinals.start %d, which are not from 0 to %d", p.replicas, p.first,
			maxOrdinals)
	}
	return nil
}

// readAccountFile returns the text of a file of the service account.
func readAccountFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxAccountBytes))
	return strings.TrimSpace(string(text)), err
}
