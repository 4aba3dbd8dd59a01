package trust

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"rollcall/internal/secretfile"
	"rollcall/internal/slowkey"
	"rollcall/zk/kerberos"
	"rollcall/zk/kerberos/credentials"
)

// The proof by Kerberos follows right after the TLS handshake. All integers are big-endian:
//
//	dialer → length (2), a request with a ticket for the dialed member
//	dialed → length (2), the reply to it
//
// Then both ends have a key of this connection (kerberos.PeerKey), and prove it to each other as a secret (proof.go). That
// binds the ticket to the TLS session and to both members' ids. A request that was recorded is worth nothing without the key, which its
// sender cannot decrypt, so requests are not remembered.
//
// The dialed side takes a principal for the member that it says it is only if it is that of a host of this member, with
// the name and the realm of its own principal for dialing.
const kerberosProtocol = "rollcall-kerberos-1"

// hostPattern stands for the host of a member in the name of a principal, as in ZooKeeper.
const hostPattern = "_HOST"

// Kerberos configures the proof by Kerberos. The zero Kerberos is none.
type Kerberos struct {
	Dialed, Dialing KeytabPrincipal // this member's, when it is dialed and when it dials
	// DialedName is the name of the principal of every dialed member, without its realm. The host _HOST stands for that
	// of the member. Without it, all members have the same principal.
	DialedName string
	Krb5Conf   string // path of krb5.conf, with the KDC
	ClockSkew  time.Duration
}

// KeytabPrincipal is a principal with its keytab.
type KeytabPrincipal struct {
	Keytab    string // path; "": none
	Principal kerberos.Principal
}

func (k KeytabPrincipal) read() ([]byte, error) {
	f, err := secretfile.ReadTrustedFile(k.Keytab, kerberos.MaxKeytab)
	return f.Text, err
}

// isSet reports whether members prove themselves by Kerberos.
func (k *Kerberos) isSet() bool { return k.Dialed.Keytab != "" }

// IsPerMember reports whether each member has a principal of its own when it is dialed.
func (k *Kerberos) IsPerMember() bool {
	_, pattern, _ := strings.Cut(k.DialedName, "/")
	return pattern == hostPattern
}

// dialedAt returns the principal of the member at a host when it is dialed.
func (k *Kerberos) dialedAt(host string) kerberos.Principal {
	name := k.DialedName
	if k.IsPerMember() {
		name = strings.TrimSuffix(name, hostPattern) + strings.ToLower(host)
	}
	return kerberos.Principal{Name: name, Realm: k.Dialed.Principal.Realm}
}

// isDialerAt reports whether a principal is that of the member at a host when it dials.
func (k *Kerberos) isDialerAt(p kerberos.Principal, host string) bool {
	service, _, _ := strings.Cut(k.Dialing.Principal.Name, "/")
	of, at, _ := strings.Cut(p.Name, "/")
	return p.Realm == k.Dialing.Principal.Realm && of == service && at != "" && strings.EqualFold(at, host)
}

// checkKerberos returns an error if the other members would reject the principals of this member.
func (cfg Config) checkKerberos() error {
	k, member, host := &cfg.Kerberos, cfg.MemberID, cfg.ConfiguredHosts[cfg.MemberID]
	if len(cfg.ConfiguredHosts) == 1 {
		host = "" // it runs alone
	}
	switch {
	case k.Dialing.Principal.Realm != k.Dialed.Principal.Realm:
		return fmt.Errorf("the principals %s and %s are of different realms; must be of the same", k.Dialing.Principal, k.Dialed.Principal)
	case host == "":
		return nil
	case !k.isDialerAt(k.Dialing.Principal, host):
		return fmt.Errorf("the principal for dialing is %s, but this member is server.%d, whose host is %s, so the other members would "+
			"reject it; give it the principal NAME/%s and its keytab", k.Dialing.Principal, member, host, strings.ToLower(host))
	case k.dialedAt(host) != k.Dialed.Principal:
		return fmt.Errorf("the principal for being dialed is %s, but the other members dial %s by quorum.auth.kerberos.servicePrincipal=%s; "+
			"make the two agree: most have quorum.auth.kerberos.servicePrincipal=NAME/%s", k.Dialed.Principal, k.dialedAt(host), k.DialedName, hostPattern)
	}
	return nil
}

// findKerberosFaults reads the keytabs, and returns all their faults and that of the principals.
func (cfg Config) findKerberosFaults() (faults []*secretfile.Fault) {
	if err := cfg.checkKerberos(); err != nil {
		faults = append(faults, &secretfile.Fault{Key: jaasFileKey, Path: "the sections of members", Err: err})
	}
	for _, p := range []KeytabPrincipal{cfg.Kerberos.Dialed, cfg.Kerberos.Dialing} {
		if f, err := secretfile.ReadTrustedFile(p.Keytab, kerberos.MaxKeytab); err == nil && f.ExposedWarning() != "" {
			faults = append(faults, secretfile.NewWarnings(jaasFileKey, p.Keytab, f.ExposedWarning())...)
		}
		if err := p.check(); err != nil {
			faults = append(faults, &secretfile.Fault{Key: jaasFileKey, Path: p.Keytab, Err: err})
		}
	}
	return faults
}

func (k KeytabPrincipal) check() error {
	content, err := k.read()
	if err != nil {
		return err
	}
	keys, err := kerberos.ParseKeytab(content)
	if err != nil {
		return err
	}
	return keys.Check(k.Principal)
}

// kerberosProof proves members by Kerberos. It is safe for concurrent use.
type kerberosProof struct {
	settings Kerberos
	acceptor *kerberos.Acceptor
	tickets  *tickets
	tls      *tls.Config // of the dialed side
	hostsOf  func(member uint32) []string
	members  func() []uint32 // all, this one included
}

// openKerberos reads the keytabs.
func openKerberos(cfg Config, g *Guard) (*kerberosProof, error) {
	p := &kerberosProof{settings: cfg.Kerberos, hostsOf: g.hostsOf}
	if err := cfg.checkKerberos(); err != nil {
		return nil, fmt.Errorf("quorum.auth: %w", err)
	}
	if err := p.settings.Dialing.check(); err != nil {
		return nil, fmt.Errorf("quorum.auth: keytab %s: %w", p.settings.Dialing.Keytab, err)
	}
	var err error
	p.acceptor, err = kerberos.NewAcceptor(kerberos.Config{
		Service: p.settings.Dialed.Principal, ClockSkew: p.settings.ClockSkew, ReadKeytab: p.settings.Dialed.read,
		Log: func(err error) {
			if err != nil {
				g.logger.Warn("the keytab of members was replaced and cannot be used, so the keys before it stay", "keytab", p.settings.Dialed.Keytab, "err", err)
				return
			}
			g.logger.Info("keytab of members replaced", "keytab", p.settings.Dialed.Keytab)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("quorum.auth: keytab %s: %w", p.settings.Dialed.Keytab, err)
	}
	if p.tls, err = unprovedTLSConfig(kerberosProtocol); err != nil {
		return nil, err
	}
	source := cfg.ticketSource
	if source == nil {
		source = &credentials.Services{ReadKeytab: p.settings.Dialing.read, Principal: p.settings.Dialing.Principal, Krb5Conf: p.settings.Krb5Conf}
	}
	if p.members = cfg.CurrentMembers; p.members == nil {
		p.members = cfg.configuredMembers
	}
	p.tickets = newTickets(source, func() []kerberos.Principal { return p.otherMembers(cfg.MemberID) }, g.logger)
	return p, nil
}

func (cfg Config) configuredMembers() (all []uint32) {
	for member := range cfg.ConfiguredHosts {
		all = append(all, member)
	}
	slices.Sort(all)
	return all
}

// otherMembers returns the principals of members when they are dialed, each once, without this one's.
func (p *kerberosProof) otherMembers(self uint32) (all []kerberos.Principal) {
	for _, member := range p.members() {
		if member == self {
			continue
		}
		for _, host := range p.hostsOf(member) {
			if of := p.settings.dialedAt(host); !slices.Contains(all, of) {
				all = append(all, of)
			}
		}
	}
	return all
}

// checkDialer returns an error if a principal is not that of a member when it dials.
func (p *kerberosProof) checkDialer(of kerberos.Principal, member uint32) error {
	hosts := p.hostsOf(member)
	if len(hosts) == 0 {
		return fmt.Errorf("member %d is not in the server list, and %s says it is that member", member, of)
	}
	if slices.ContainsFunc(hosts, func(host string) bool { return p.settings.isDialerAt(of, host) }) {
		return nil
	}
	service, _, _ := strings.Cut(p.settings.Dialing.Principal.Name, "/")
	return fmt.Errorf("%s says it is member %d, whose principal is %s/%s@%s", of, member, service, strings.ToLower(hosts[0]), p.settings.Dialing.Principal.Realm)
}

// checkDialed returns an error if a principal is not that of a member when it is dialed.
func (p *kerberosProof) checkDialed(of kerberos.Principal, member uint32) error {
	hosts := p.hostsOf(member)
	if slices.ContainsFunc(hosts, func(host string) bool { return p.settings.dialedAt(host) == of }) {
		return nil
	}
	return fmt.Errorf("member %d was dialed as %s, and its hosts are now %q", member, of, hosts)
}

// errTicketRejected is the dialer's error if the dialed side does not reply to its ticket.
var errTicketRejected = fmt.Errorf("Kerberos: %w; see the log there", ErrProofRejected)

// offer is the ticket for one handshake.
type offer struct {
	ticket kerberos.Ticket
	to     kerberos.Principal
}

// offerFor returns the ticket for a member that is dialed. If there is none, and the member may not be known yet, its
// ticket is got from now on.
func (p *kerberosProof) offerFor(dialed Dialed) (*offer, error) {
	host := cmp.Or(dialed.Host, dialed.NamedHost)
	if hosts := p.hostsOf(dialed.Member); host == "" && len(hosts) > 0 {
		host = hosts[0]
	}
	to := p.settings.dialedAt(host)
	if dialed.NamedHost != "" {
		p.tickets.addNewcomer(to)
	}
	ticket, err := p.tickets.ticketFor(to)
	if err != nil {
		return nil, err
	}
	return &offer{ticket, to}, nil
}

// proveTicketAsDialer proves this member to member to by a ticket, and has that member prove itself.
func (g *Guard) proveTicketAsDialer(c *Conn, to uint32, o *offer) error {
	request, token, err := kerberos.NewPeerRequest(o.ticket)
	if err != nil {
		return err
	}
	if err := writeToken(c, token); err != nil {
		return fmt.Errorf("send ticket: %w", err)
	}
	reply, err := readToken(c)
	switch {
	case isClosedByPeer(err):
		g.kerberos.tickets.noteRejected(o.to)
		return errTicketRejected
	case err != nil:
		return fmt.Errorf("reply to the ticket: %w", err)
	}
	c.byTicket = true
	key, err := request.TakeReply(reply)
	if err != nil {
		return fmt.Errorf("%s does not prove itself: %w", o.to, err)
	}
	at, err := g.proveAsDialer(c, to, []slowkey.Key{slowkey.Key(key)}, errTicketRejected)
	if err == nil && at == noKey {
		err = fmt.Errorf("%s does not prove that it has the key of this connection", o.to)
	}
	return err
}

// proveTicketAsDialed checks the dialer's ticket, and that it is of the member that the dialer says it is.
func (g *Guard) proveTicketAsDialed(c *Conn) error {
	token, err := readToken(c)
	if err != nil {
		return newRejection(NoProof, "no ticket: %w", err)
	}
	reply, of, key, err := g.kerberos.acceptor.AcceptPeer(token)
	if fault, ok := errors.AsType[*kerberos.Error](err); ok {
		return &Rejection{BadTicket + Reason(fault.Fault), err}
	}
	if err != nil {
		return &Rejection{NoProof, err}
	}
	if err := writeToken(c, reply); err != nil {
		return fmt.Errorf("send reply to the ticket: %w", err)
	}
	return g.proveAsDialed(c, []slowkey.Key{slowkey.Key(key)}, func(at int, from uint32) error {
		if at == noKey {
			return newRejection(NoProof, "the proof is wrong: a process that says it is member %d has sent a ticket of %s, and does not have its key: "+
				"it was copied from the network", from, of)
		}
		if err := g.kerberos.checkDialer(of, from); err != nil {
			return &Rejection{OtherMember, err}
		}
		c.byTicket, c.provedDialer = true, of
		return nil
	})
}

func writeToken(c *Conn, token []byte) error {
	_, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(token))), token...)) // at most MaxToken
	return err
}

// readToken reads a token, whose memory grows with the bytes that come. It returns io.EOF if the other end has closed the connection.
func readToken(c *Conn) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		return nil, err
	}
	var token bytes.Buffer
	_, err := io.CopyN(&token, c, int64(binary.BigEndian.Uint16(length[:])))
	return token.Bytes(), err
}

// PrepareDials gets the tickets with which this member dials the others, within ctx. Only a process that dials without
// Run needs it.
func (g *Guard) PrepareDials(ctx context.Context) error {
	if g == nil || g.kerberos == nil {
		return nil
	}
	return g.kerberos.tickets.get(ctx, g.kerberos.tickets.due())
}

// AwaitDial waits until MayDial returns nil, within ctx, and otherwise returns its error. Run must be running.
func (g *Guard) AwaitDial(ctx context.Context, to Dialed) error {
	if g == nil || g.kerberos == nil {
		return nil
	}
	for {
		next := g.kerberos.tickets.nextRound()
		err := g.MayDial(to)
		if err == nil {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return err
		}
	}
}

// UsesTickets reports whether this member proves itself by Kerberos.
func (g *Guard) UsesTickets() bool { return g != nil && g.kerberos != nil }

// TicketSeconds returns the seconds from now until the ticket for each other member ends, or 0 if it is missing or has
// ended, keyed by the member's id. It must not be called without Kerberos.
func (g *Guard) TicketSeconds(now time.Time) map[string]int64 {
	left := map[string]int64{}
	for _, member := range g.kerberos.members() {
		if hosts := g.hostsOf(member); member != g.memberID && len(hosts) > 0 {
			end := g.kerberos.tickets.endOf(g.kerberos.settings.dialedAt(hosts[0]))
			left[fmt.Sprint(member)] = max(0, int64(end.Sub(now).Seconds()))
		}
	}
	return left
}
