package credentials

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"rollcall/zk/kerberos"
)

const (
	// kdcTimeout limits one exchange with one KDC, so that one that hangs leaves time for the next.
	kdcTimeout = 3 * time.Second
	// maxKDCs limits the KDCs that are tried for one message.
	maxKDCs = 8
	// kdcPort is the port of a KDC that has none in krb5.conf.
	kdcPort = "88"
)

// Services gets tickets for services with the keytab of a principal, which is a service of the same realm. It keeps nothing: the files
// are read for each request. It is safe for concurrent use.
type Services struct {
	ReadKeytab func() ([]byte, error)
	Principal  kerberos.Principal
	Krb5Conf   string // path of krb5.conf; "": as in Config

	// Dial opens a connection to a KDC. If it is nil, connections are TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// Request gets a ticket for each service from the KDC, within ctx. It returns those that it has got, and an error about the others. The
// KDC must serve TCP. Nothing that it sends makes Request take more than MaxToken for a reply.
func (s *Services) Request(ctx context.Context, services []kerberos.Principal) (tickets []kerberos.ServiceTicket, err error) {
	content, err := s.ReadKeytab()
	if err != nil {
		return nil, err
	}
	keys, err := kerberos.ParseKeytab(content)
	if err != nil {
		return nil, err
	}
	first, err := kerberos.NewInitialRequest(keys, s.Principal)
	if err != nil {
		return nil, err
	}
	kdcs, err := s.findKDCs(ctx)
	if err != nil {
		return nil, err
	}
	reply, err := kdcs.send(ctx, first.Message)
	if err != nil {
		return nil, err
	}
	granter, err := first.Take(reply)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, of := range services {
		t, err := kdcs.requestService(ctx, granter, of)
		if err != nil {
			errs = append(errs, fmt.Errorf("a ticket for %s: %w", of, err))
			continue
		}
		tickets = append(tickets, t)
	}
	return tickets, errors.Join(errs...)
}

// kdcList has the addresses of a realm's KDCs. The first one is that which replied last.
type kdcList struct {
	addresses []string
	dial      func(ctx context.Context, address string) (net.Conn, error)
}

// findKDCs returns the KDCs of the client's realm in krb5.conf, or by the name service if that has none.
func (s *Services) findKDCs(ctx context.Context) (*kdcList, error) {
	conf, err := loadConf(s.Krb5Conf)
	if err != nil {
		return nil, err
	}
	found := &kdcList{dial: s.Dial}
	if found.dial == nil {
		found.dial = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	realm := s.Principal.Realm
	for _, r := range conf.Realms {
		if r.Realm == realm {
			found.addresses = append(found.addresses, r.KDC...)
		}
	}
	if len(found.addresses) == 0 && conf.LibDefaults.DNSLookupKDC {
		_, records, err := net.DefaultResolver.LookupSRV(ctx, "kerberos", "tcp", realm)
		if err != nil {
			return nil, fmt.Errorf("krb5.conf has no KDC of %s, and the name service none: %w", realm, err)
		}
		for _, r := range records {
			found.addresses = append(found.addresses, net.JoinHostPort(strings.TrimSuffix(r.Target, "."), fmt.Sprint(r.Port)))
		}
	}
	if len(found.addresses) == 0 {
		return nil, fmt.Errorf("krb5.conf has no KDC of %s; add it to the section realms", realm)
	}
	for i, address := range found.addresses {
		if _, _, err := net.SplitHostPort(address); err != nil {
			found.addresses[i] = net.JoinHostPort(address, kdcPort)
		}
	}
	found.addresses = found.addresses[:min(len(found.addresses), maxKDCs)]
	return found, nil
}

func (k *kdcList) requestService(ctx context.Context, granter *kerberos.Granter, of kerberos.Principal) (t kerberos.ServiceTicket, err error) {
	request, err := granter.NewServiceRequest(of)
	if err != nil {
		return t, err
	}
	reply, err := k.send(ctx, request.Message)
	if err != nil {
		return t, err
	}
	return request.Take(reply)
}

// send sends a message to one KDC after the other until one replies.
func (k *kdcList) send(ctx context.Context, message []byte) ([]byte, error) {
	var errs []error
	for i, address := range k.addresses {
		reply, err := k.exchange(ctx, address, message)
		if err == nil {
			k.addresses = slices.Insert(slices.Delete(k.addresses, i, i+1), 0, address)
			return reply, nil
		}
		errs = append(errs, fmt.Errorf("the KDC at %s: %w", address, err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// exchange sends a message to a KDC and returns its reply, within kdcTimeout.
func (k *kdcList) exchange(ctx context.Context, address string, message []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, kdcTimeout)
	defer cancel()
	reply, err := k.exchangeWithin(ctx, address, message)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("no reply within %v", kdcTimeout)
	}
	return reply, err
}

// exchangeWithin sends a message and reads the reply (RFC 4120, section 7.2.2).
func (k *kdcList) exchangeWithin(ctx context.Context, address string, message []byte) ([]byte, error) {
	conn, err := k.dial(ctx, address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // ends what waits
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, fmt.Errorf("no reply: %w", err)
	}
	length := binary.BigEndian.Uint32(size[:])
	if length > kerberos.MaxToken {
		return nil, fmt.Errorf("a reply of %d bytes; must be at most %d", length, kerberos.MaxToken)
	}
	reply := make([]byte, length) // at most MaxToken
	if _, err := io.ReadFull(conn, reply); err != nil {
		return nil, fmt.Errorf("the reply is cut short: %w", err)
	}
	return reply, nil
}
